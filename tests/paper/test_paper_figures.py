"""Every figure by name: drawn from what is there, or one sentence about what is missing."""

import numpy as np
import pytest
from matplotlib.axes import Axes

from fedactive.data.dataset import Dataset
from fedactive.data.loader import load
from fedactive.errors import ConfigurationError, DataError, RunError
from fedactive.laboratory.split import split
from fedactive.paper import FIGURES, figures
from fedactive.paper.drawings import line_style
from fedactive.paper.figures import FigureRequest, figure
from fedactive.paper.reproduce import experiments
from fedactive.paper.settings import COMPARED, all_settings
from fedactive.record.archive import Archive
from support.run_folders import runs_of


@pytest.fixture
def draw(runs, tmp_path):
    """The text of a figure drawn from the runs that were stored."""

    def text(name, **options):
        path = tmp_path / "pictures" / f"{name}.svg"
        figure(name, FigureRequest(Archive(runs_of(runs)), path, data_dir=tmp_path, **options))
        return path.read_text()

    return text


@pytest.mark.parametrize("name", FIGURES)
def test_without_runs_or_data_a_figure_says_what_is_missing(draw, tmp_path, name):
    with pytest.raises((RunError, DataError)) as error:
        draw(name)
    assert "\n" not in str(error.value)
    needed = "fedactive data get cifar10" if name == "clients" else "`fedactive paper run "
    assert needed in str(error.value)
    assert not (tmp_path / "pictures").exists()


def test_a_name_or_ending_that_is_unknown(draw, runs, tmp_path):
    with pytest.raises(ConfigurationError, match="did you mean 'matrices'"):
        draw("matrix")
    with pytest.raises(ConfigurationError, match=r"output: .*a picture: .*\.png"):
        figures.draw_observation(None, tmp_path / "figure.doc")


def test_observation_has_a_line_for_each_alpha_with_runs(store, runs, draw):
    for e in experiments("emd", seeds=[1, 2], alphas=[1, float("inf")], rhos=[5], runs_dir=runs):
        store(e, [0.5, 0.5 + 0.01 * e.seed * (e.selector == "global")])
    text = draw("observation")
    assert "global imbalance" in text
    assert "α = ∞" in text
    assert "α = 1" in text
    assert "α = 0.1" not in text


@pytest.fixture
def two_settings(store, runs):
    """LoGo, Random and Entropy (local) on CIFAR-10 and SVHN: settings 1 and 20, and those of SVHN."""
    for setting in all_settings():
        if setting.number in (1, 20) or (setting.dataset, setting.alpha, setting.model) == (
            "svhn",
            0.1,
            "cnn4",
        ):
            for name in ("logo", "random", "entropy"):
                for seed in (1, 2):
                    e = setting.experiment(name, seed=seed, runs_dir=runs)
                    if e.budget == 5 and e.init == "random" and e.selector != "global":
                        store(e, [0.5, 0.5 + 0.01 * seed + len(name) / 100, 0.6])


def test_comparison_figures(two_settings, draw):
    overall = draw("penalty")
    assert "average" in overall
    assert all(name in overall for name in ("logo (4)", "random (4)", "entropy (2)"))
    by_selector = draw("penalty", category="query selector")
    assert "global: in how many of 2 settings" in by_selector
    assert "local: in how many of 2 settings" in by_selector
    assert "(2)" not in by_selector  # all have as many
    assert "query selector local (n = 2)" in draw("bars")


def test_curves_of_all_settings_that_have_runs_or_of_one(two_settings, draw):
    titles = {s.title for s in all_settings()}
    everything = draw("curves")
    assert {title for title in titles if title in everything} == {
        f"{dataset}, alpha 0.1, cnn4, budget 5%, random start" for dataset in ("cifar10", "svhn")
    }
    one = draw("curves", setting=20)
    assert {title for title in titles if title in one} == {all_settings()[19].title}
    assert "entropy L  60.0" in one
    assert "entropy G" not in one
    assert draw("curves", setting=1).count("logo  60.0") == 1  # its runs belong to settings 1 and 20
    assert f"{all_settings()[19].title}, 2 seeds" in one
    assert "strategy (seeds)" not in one
    with pytest.raises(RunError, match="no runs of pathmnist"):
        draw("curves", setting=3)


def test_lines_end_where_their_runs_do_and_are_means_of_the_same_seeds(store, runs, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        Axes, "plot", lambda axes, line, **style: drawn.setdefault(style["label"], []).append(line)
    )
    monkeypatch.setattr(Axes, "legend", lambda axes, **options: None)
    setting = all_settings()[0]
    for name, seed, accuracies in [
        ("random", 1, [0.5, 0.6]),
        ("random", 2, [0.52, 0.62]),
        ("entropy", 1, [0.5, 0.7, 0.8]),
        ("entropy", 2, [0.52, 0.7]),  # stopped: its third round would make the mean jump
        ("logo", 2, [0.52, 0.64, 0.7]),
    ]:
        store(setting.experiment(name, seed=seed, runs_dir=runs), accuracies)
    figure("curves", FigureRequest(Archive(runs_of(runs)), runs / "curves.svg", setting=1))
    accuracy, difference = drawn["entropy G (2)  70.0 at 10%"]
    assert accuracy.to_dict() == pytest.approx({5: 51, 10: 70})
    assert difference.to_dict() == pytest.approx({5: 0, 10: 9})
    accuracy, difference = drawn["logo (1)  70.0"]
    assert accuracy.to_dict() == pytest.approx({5: 52, 10: 64, 15: 70})
    assert difference.to_dict() == pytest.approx({5: 0, 10: 2})  # Random of seed 2
    assert list(drawn) == ["logo (1)  70.0", "entropy G (2)  70.0 at 10%", "random (2)  61.0 at 10%"]


def test_lines_of_different_numbers_of_seeds_say_so(store, runs, draw):
    for name, seed in [("random", 1), ("random", 2), ("logo", 1)]:
        store(all_settings()[0].experiment(name, seed=seed, runs_dir=runs), [0.5 + 0.02 * seed])
    text = draw("curves", setting=1)
    assert "strategy (seeds)" in text
    assert "random (2)  53.0" in text
    assert "logo (1)  52.0" in text
    assert f">{all_settings()[0].title}<" in text


def test_lines_that_all_end_before_their_longest_run_say_where(store, runs, draw):
    for name in ("random", "logo"):
        for seed, accuracies in ((1, [0.5, 0.6]), (2, [0.5])):
            store(all_settings()[0].experiment(name, seed=seed, runs_dir=runs), accuracies)
    assert "logo  50.0 at 5%" in draw("curves", setting=1)


def test_bars_of_different_numbers_of_settings_say_so(store, runs, draw):
    for number, names in ((1, ["logo", "random", "entropy"]), (2, ["logo", "random"])):
        for name in names:
            for seed in (1, 2):
                setting = all_settings()[number - 1]
                e = setting.experiment(name, seed=seed, runs_dir=runs)
                store(e, [0.5, 0.5 + 0.01 * seed + len(name) / 100])
    text = draw("bars")
    assert "random (4)" in text  # logo and random count in the settings of either selector
    assert "entropy (1)" in text
    assert "overall (n" not in text


def test_a_strategy_looks_the_same_by_either_model_but_for_the_dashes():
    by_global, by_local = line_style("badge G"), line_style("badge L")
    assert by_global.pop("linestyle") == "-"
    assert by_local.pop("linestyle")[1]  # lengths of dashes
    assert by_global == by_local
    assert len({line_style(name)["color"] for name in COMPARED}) == 7
    assert line_style("logo")["linewidth"] > 2 * by_local["linewidth"]


def test_matrices_are_those_of_the_first_round(store, runs, draw, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "draw_matrices", lambda matrices, path: drawn.update(matrices))
    own = [[0.1 * c for c in range(10)], [0.5] * 10]
    made = experiments("emd", seeds=[1, 2], runs_dir=runs)
    e = next(e for e in made if (e.rho, e.alpha, e.selector, e.seed) == (20, 0.1, "local", 2))
    store(e, [0.5, 0.6], labels=[[[0, 0, 3], [1]], [[1], [1]]], local=own)
    figure("matrices", FigureRequest(Archive(runs_of(runs)), runs / "unused.svg"))
    ((where, (counts, accuracy)),) = drawn.items()
    assert where == (20, 0.1)
    assert counts.index.tolist() == ["k1", "k2", "all"]
    assert counts.loc["all"].tolist() == [2, 1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert accuracy.loc["k1", "c4"] == pytest.approx(30)
    assert accuracy.loc["all"].tolist() == pytest.approx([52] * 10)  # after the last FL round
    monkeypatch.undo()
    assert "ρ = 20, α = 0.1: labels" in draw("matrices")


def test_matrices_need_local_only_models(store, runs, draw):
    e = next(e for e in experiments("emd", seeds=[1], runs_dir=runs) if e.selector == "local")
    store(e, [0.5])  # they are trained at the second query
    with pytest.raises(RunError, match="completed two AL rounds"):
        draw("matrices")


def test_clients_come_from_the_partition_alone(digits: Dataset, draw, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "load", lambda name, folder: load("digits", folder))
    monkeypatch.setattr(figures, "draw_clients", lambda counts, path: drawn.update(counts))
    figure("clients", FigureRequest(Archive([]), None))
    assert set(drawn) == {(rho, alpha) for rho in (1, 5, 10, 20) for alpha in (0.1, 1, float("inf"))}
    e = next(e for e in experiments("emd", seeds=[1]) if (e.rho, e.alpha) == (5, 1))
    pool = split(e, digits.train_labels, 10).pools[3]
    assert drawn[5, 1][3].tolist() == np.bincount(digits.train_labels[pool], minlength=10).tolist()
    monkeypatch.undo()
    monkeypatch.setattr(figures, "load", lambda name, folder: load("digits", folder))
    assert "ρ = 20, α = ∞" in draw("clients")


def test_cost_stands_beside_the_paper_s(store, runs, draw):
    made = experiments("cost", seeds=[1], runs_dir=runs)
    store(next(e for e in made if e.strategy == "logo"), [0.5, 0.6])
    text = draw("cost")
    assert "5 → 10% labelled" in text
    assert "entropy (global)" in text
    assert ">0.4<" in text  # 2 + 1 + 1 seconds, ten clients
    assert ">17.1<" in text
