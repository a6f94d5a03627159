"""Who wins: winning rates, penalty matrices and their categories, on runs made up by hand."""

import pytest

from fedactive.analysis.significance import AVERAGE
from fedactive.errors import ConfigurationError
from fedactive.paper.comparison import penalty_by, setting_curves, win_shares
from fedactive.paper.reproduce import experiments, show
from fedactive.paper.settings import all_settings
from fedactive.record.archive import Archive
from support.run_folders import runs_of


@pytest.fixture
def selectors(store, runs):
    """Entropy with rho 5, alpha 1: the global model wins in rounds 2 and 3 of 4, loses in round 4."""
    for e in experiments("emd", seeds=[1, 2, 3], runs_dir=runs):
        if (e.rho, e.alpha) == (5, 1):
            ahead = [0.0, 0.05, 0.04, -0.03] if e.selector == "global" else [0.0] * 4
            store(e, [0.5 + d + 0.001 * e.seed * (d != 0) + 0.01 * e.seed for d in ahead])
    return runs_of(runs)


def test_the_observation_is_the_gap_of_winning_rates(selectors):
    table = show("observation", selectors).set_index(["rho", "alpha"])
    assert len(table) == 12
    row = table.loc[(5, 1)]
    assert (row["global_wins"], row["local_wins"], row["gap"]) == (0.5, 0.25, 0.25)
    assert (row["rounds"], row["seeds"], row["note"]) == (4, 3, "")
    assert table.loc[(1, 0.1), "note"] == "no runs of both"
    alone = show("observation", [run for run in selectors if run.seed == 1])
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
    return runs_of(runs)


def all_experiments(runs):
    wanted = [s for s in all_settings() if s.number in (1, 20)]
    return {
        e.name: e
        for setting in wanted
        for name in ("logo", "random", "entropy")
        for e in (setting.experiment(name, seed=seed, runs_dir=runs) for seed in (1, 2))
    }.values()


def test_random_and_logo_count_in_the_settings_of_both_selectors(settings_runs):
    curves = setting_curves(Archive(settings_runs))
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
    shares = win_shares(Archive(settings_runs)).set_index(["category", "value", "baseline"])
    assert shares.loc[("overall", "", "random"), "win"] == pytest.approx(100 / 3)
    assert shares.loc[("overall", "", "random"), "settings"] == 2
    assert shares.loc[("query selector", "local", "entropy"), "defeat"] == pytest.approx(200 / 3)
    assert shares.loc[("query selector", "local", "entropy"), "settings"] == 1
    assert ("query selector", "global", "entropy") not in shares.index


def test_a_category_divides_the_matrix_among_its_values(settings_runs):
    archive = Archive(settings_runs)
    matrices = penalty_by("query selector", archive)
    assert list(matrices) == ["global", "local"]
    assert matrices["global"].columns.tolist() == ["random", "logo"]  # entropy has no run by the global model
    assert matrices["local"].loc["entropy", "logo"] == pytest.approx(2 / 3)
    assert sum(m.loc["logo", "random"] for m in matrices.values()) == pytest.approx(2 / 3)
    assert list(penalty_by("budget", archive)) == ["5%"]
    with pytest.raises(ConfigurationError, match="did you mean 'budget'"):
        penalty_by("budgets", archive)


def test_rounds_that_not_all_seeds_have_reached_are_not_tested(store, runs):
    setting = all_settings()[0]
    for seed in (1, 2, 3):
        luck = seed / 1000
        for name, third in (("random", 0.5), ("logo", 0.7)):
            accuracies = [0.5 + luck, 0.5 + luck * (-1) ** seed, third + luck][: 2 if seed == 3 else 3]
            store(setting.experiment(name, seed=seed, runs_dir=runs), accuracies)
    assert setting_curves(Archive(runs_of(runs)))["al_round"].max() == 2
    assert setting_curves(Archive(runs_of(runs), [1, 2]))["al_round"].max() == 3


def test_without_runs_there_is_nothing_to_tell():
    assert show("penalty", [])["strategy"].tolist() == [AVERAGE]
    assert win_shares(Archive([])).empty
