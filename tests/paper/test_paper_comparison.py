import pytest

from fedactive.analysis.significance import AVERAGE
from fedactive.errors import RunError
from fedactive.paper.comparison import setting_curves, win_shares
from fedactive.paper.figures import (
    bars_figure,
    curves_figure,
    matrices,
    matrices_figure,
    observation_figure,
    penalty_figure,
)
from fedactive.paper.folders import Archive, run_folders
from fedactive.paper.reproduce import experiments, show
from fedactive.paper.settings import all_settings


@pytest.fixture
def selectors(store, runs):
    """Entropy with rho 5, alpha 1: the global model wins in rounds 2 and 3 of 4, loses in round 4."""
    for e in experiments("emd", seeds=[1, 2, 3], runs_dir=runs):
        if (e.rho, e.alpha) == (5, 1):
            ahead = [0.0, 0.05, 0.04, -0.03] if e.selector == "global" else [0.0] * 4
            store(e, [0.5 + d + 0.001 * e.seed * (d != 0) + 0.01 * e.seed for d in ahead])
    return run_folders(runs)


def test_the_observation_is_the_gap_of_winning_rates(selectors):
    table = show("observation", selectors).set_index(["rho", "alpha"])
    assert len(table) == 12
    row = table.loc[(5, 1)]
    assert (row["global_wins"], row["local_wins"], row["gap"]) == (0.5, 0.25, 0.25)
    assert (row["rounds"], row["seeds"], row["note"]) == (4, 3, "")
    assert table.loc[(1, 0.1), "note"] == "no runs of both"
    alone = show("observation", [folder for folder in selectors if "-s1-" in folder.name])
    assert set(alone["note"]) == {"no runs of both", "one seed"}
    assert alone["gap"].isna().all()


@pytest.fixture
def settings_runs(store, runs):
    """CIFAR-10, alpha 0.1: LoGo beats Random in round 2; Entropy (local) beats LoGo in rounds 2 and 3."""
    curves = {
        ("logo", "both"): (0.5, 0.6, 0.6),
        ("random", "none"): (0.5, 0.5, 0.6),
        ("entropy", "local"): (0.5, 0.7, 0.7),
    }
    for e in all_experiments(runs):
        if (e.strategy, e.selector) in curves:
            store(e, [a + e.seed * (1 + i) * a / 1000 for i, a in enumerate(curves[e.strategy, e.selector])])
    return run_folders(runs)


def all_experiments(runs):
    wanted = [s for s in all_settings() if s.label.startswith("cifar10") and s.number in (1, 20)]
    return {
        e.name: e
        for setting in wanted
        for name in ("logo", "random", "entropy")
        for e in (setting.experiment(name, seed=seed, runs_dir=runs) for seed in (1, 2))
    }.values()


def test_random_and_logo_count_in_the_settings_of_both_selectors(settings_runs):
    curves = setting_curves(settings_runs)
    assert set(zip(curves["setting"], curves["strategy"], strict=True)) == {
        (1, "logo"), (1, "random"), (20, "logo"), (20, "random"), (20, "entropy"),
    }  # fmt: skip


def test_the_penalty_matrix_sums_over_settings(settings_runs):
    matrix = show("penalty", settings_runs).set_index("strategy")
    assert matrix.index.tolist() == ["random", "entropy", "logo", AVERAGE]
    assert matrix.loc["logo", "random"] == pytest.approx(2 / 3)  # one of three rounds, in two settings
    assert matrix.loc["entropy", "logo"] == pytest.approx(2 / 3)  # two of three, in one
    assert matrix.loc["random", "logo"] == 0


def test_win_shares_are_means_over_the_settings_tested(settings_runs):
    shares = win_shares(settings_runs).set_index(["category", "value", "baseline"])
    assert shares.loc[("overall", "", "random"), "win"] == pytest.approx(100 / 3)
    assert shares.loc[("overall", "", "random"), "settings"] == 2
    assert shares.loc[("query selector", "local", "entropy"), "defeat"] == pytest.approx(200 / 3)
    assert shares.loc[("query selector", "local", "entropy"), "settings"] == 1
    assert ("query selector", "global", "entropy") not in shares.index


def test_figures_are_saved_with_their_names_in_them(selectors, tmp_path):
    observation_figure(show("observation", selectors), tmp_path / "observation.svg")
    text = (tmp_path / "observation.svg").read_text()
    assert "global imbalance" in text
    assert "α = ∞" in text


def test_comparison_figures(settings_runs, tmp_path):
    penalty_figure(show("penalty", settings_runs).set_index("strategy"), tmp_path / "penalty.svg")
    shares = win_shares(settings_runs)
    bars_figure(shares[shares["category"] == "query selector"], tmp_path / "bars.svg")
    curves_figure(setting_curves(settings_runs), all_settings()[19], tmp_path / "curves.svg")
    assert "average" in (tmp_path / "penalty.svg").read_text()
    assert "query selector local (n = 1)" in (tmp_path / "bars.svg").read_text()
    assert "entropy  7" in (tmp_path / "curves.svg").read_text()
    with pytest.raises(RunError, match="no runs of setting 2"):
        curves_figure(setting_curves(settings_runs), all_settings()[1], tmp_path / "none.svg")


def test_matrices_of_the_first_round(store, runs, tmp_path):
    e = next(e for e in experiments("emd", seeds=[1], runs_dir=runs) if e.selector == "local")
    own = [[0.1 * c for c in range(10)], [0.5] * 10]
    store(e, [0.5, 0.6], labels=[[[0, 0, 3], [1]], [[1], [1]]], local=own)
    (run,) = Archive(run_folders(runs)).of(e)
    counts, accuracy = matrices(run)
    assert counts.index.tolist() == ["k1", "k2", "all"]
    assert counts.loc["all"].tolist() == [2, 1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert accuracy.loc["k1", "c4"] == pytest.approx(30)
    assert accuracy.loc["all"].tolist() == pytest.approx([50] * 10)
    matrices_figure(run, tmp_path / "matrices.png")
    assert (tmp_path / "matrices.png").stat().st_size > 1000


def test_matrices_need_local_only_models(store, runs):
    e = next(e for e in experiments("emd", seeds=[1], runs_dir=runs) if e.selector == "global")
    store(e, [0.5])
    (run,) = Archive(run_folders(runs)).of(e)
    with pytest.raises(RunError, match="no local-only models"):
        matrices(run)


def test_without_runs_there_is_nothing_to_tell():
    assert show("penalty", [])["strategy"].tolist() == [AVERAGE]
    assert win_shares([]).empty
