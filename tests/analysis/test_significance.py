"""Winning rates, paired tests, bands and areas, on numbers small enough to check by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedactive.analysis.significance import (
    AVERAGE,
    NOTHING_IN_COMMON,
    ONE_SEED,
    PAPER_THRESHOLD,
    aubc,
    confidence_band,
    holm,
    paired_tests,
    penalty_matrix,
    t_score,
    winning_rate,
    winning_rates,
)

COLUMNS = ["strategy", "seed", "al_round", "labelled", "accuracy"]
WON = [3.0, 4.0, 3.0, 4.0]  # differences with t = 2·3.5/√(1/3) = 12.1
CLOSE = [1.0, -1.0, 2.0, 0.0]  # t = 2·0.5/1.291 = 0.77


def table(setting: str | None = None, **strategies: list[list[float]]) -> pd.DataFrame:
    """Curves from accuracies[round][seed]; a NaN is a run that did not get there."""
    rows = [
        (name, seed, al_round, 5.0 * al_round, accuracy)
        for name, rounds in strategies.items()
        for al_round, seeds in enumerate(rounds, start=1)
        for seed, accuracy in enumerate(seeds, start=1)
        if not math.isnan(accuracy)
    ]
    curves = pd.DataFrame(rows, columns=COLUMNS)
    return curves if setting is None else curves.assign(setting=setting)


def against(rounds: list[list[float]], setting: str | None = None) -> pd.DataFrame:
    """Strategies a and b, whose difference is as given."""
    return table(
        setting, a=[[60 + d for d in seeds] for seeds in rounds], b=[[60.0] * len(s) for s in rounds]
    )


@st.composite
def random_curves(draw: st.DrawFn, names: str = "abc") -> pd.DataFrame:
    """Complete curves with the resolution of 1,000 test images."""
    seeds, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    accuracy = st.integers(0, 1000).map(lambda correct: correct / 10)
    curve = st.lists(st.lists(accuracy, min_size=seeds, max_size=seeds), min_size=rounds, max_size=rounds)
    return table(**{name: draw(curve) for name in names})


# --------------------------------------------------------------------------------------------- t-score


def test_t_score_by_hand() -> None:
    assert t_score([1, 2, 3, 4]) == pytest.approx(2 * 2.5 / 1.2909944)
    assert t_score([0, 2]) == pytest.approx(math.sqrt(2) * 1 / math.sqrt(2))


def test_t_score_of_differences_that_do_not_vary() -> None:
    assert t_score([0, 0, 0]) == 0
    assert t_score([2, 2]) == math.inf
    assert t_score([-2, -2, -2]) == -math.inf
    assert t_score([70.1 - 60.1, 71.3 - 61.3]) == math.inf  # equal up to rounding only
    assert t_score([0.1 + 0.2 - 0.3, 0]) == 0


@pytest.mark.parametrize("differences", [[], [1.0]])
def test_t_score_needs_two_seeds(differences: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two paired seeds"):
        t_score(differences)


def test_t_score_is_scipys() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 4, 10):
        a, b = rng.normal(60, 2, n), rng.normal(61, 2, n)
        assert t_score(a - b) == pytest.approx(stats.ttest_rel(a, b).statistic)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(-500, 500), min_size=2, max_size=8), st.data())
def test_t_score_changes_sign_with_the_pair_and_ignores_the_order_of_seeds(
    tenths: list[int], data: st.DataObject
) -> None:
    t = t_score(np.array(tenths) / 10)
    assert t_score(-np.array(tenths) / 10) == -t
    assert t_score(np.array(data.draw(st.permutations(tenths))) / 10) == pytest.approx(t)


# ---------------------------------------------------------------------------------------- winning rate


def test_winning_rate_by_hand() -> None:
    curves = against([[0, 0, 0, 0], WON, CLOSE, WON])
    assert winning_rate(curves, "a", "b") == (0.5, 4, "")
    assert winning_rate(curves, "b", "a") == (0, 4, "")


def test_first_round_keeps_the_rate_below_one() -> None:
    """Everyone starts from the same random labels, so that R - 1 of R is the most there is."""
    assert winning_rate(against([[0, 0, 0, 0], WON, WON, WON]), "a", "b").rate == 3 / 4


@pytest.mark.parametrize(("t", "wins"), [(2.775, 0), (2.777, 1), (3.181, 1), (-5, 0)])
def test_threshold_of_the_paper(t: float, wins: int) -> None:
    """μ ± 1 with two seeds has σ = √2, so t = μ."""
    assert winning_rate(against([[t - 1, t + 1]]), "a", "b").rate == wins


def test_a_score_at_the_threshold_does_not_win() -> None:
    differences = [2.776 - 1, 2.776 + 1]
    assert t_score(differences) == PAPER_THRESHOLD == 2.776
    curves = table(a=[differences], b=[[0.0, 0.0]])
    assert winning_rate(curves, "a", "b").rate == 0
    assert winning_rate(curves, "a", "b", threshold=np.nextafter(2.776, 0)).rate == 1


def test_the_exact_threshold_is_stricter_for_four_seeds() -> None:
    assert stats.t.ppf(0.975, df=4) == pytest.approx(PAPER_THRESHOLD, abs=5e-4)
    curves = against([[0.5, 1, 1, 2.2]])  # t = 2·1.175/0.7274 = 3.23
    curves_between = against([[0.4, 1, 1, 2.2]])  # t = 2·1.15/0.7550 = 3.05
    assert winning_rate(curves, "a", "b", threshold=3.182).rate == 1
    assert winning_rate(curves_between, "a", "b", threshold=3.182).rate == 0
    assert winning_rate(curves_between, "a", "b").rate == 1


def test_a_constant_lead_is_a_win() -> None:
    assert winning_rate(against([[2, 2, 2, 2]]), "a", "b").rate == 1
    assert winning_rate(against([[2, 2, 2, 2]]), "b", "a").rate == 0


def test_only_rounds_and_seeds_in_common_count() -> None:
    nan = math.nan
    won = [[60.0] * 4, [63, 64, 63, 64], [63, 64, 63, 64]]
    curves = table(a=won, b=[[60.0] * 4, [60.0] * 4])
    assert winning_rate(curves, "a", "b") == (1 / 2, 2, "")
    # In the third round only one seed is left to compare: not a round that can be tested.
    curves = table(a=won, b=[[60.0] * 4, [60.0, 60.0, nan, 60.0], [nan, nan, 60.0, nan]])
    assert winning_rate(curves, "a", "b") == (1 / 2, 2, "")


def test_winning_rate_without_a_test_says_why() -> None:
    nan = math.nan
    assert winning_rate(against([[5], [5]]), "a", "b") == (0, 0, ONE_SEED)
    other_seeds = table(a=[[60, 61, nan, nan]], b=[[nan, nan, 60, 61]])
    assert winning_rate(other_seeds, "a", "b") == (0, 0, NOTHING_IN_COMMON)
    other_rounds = table(a=[[60, 61], [nan, nan]], b=[[nan, nan], [60, 61]])
    assert winning_rate(other_rounds, "a", "b") == (0, 0, NOTHING_IN_COMMON)


def test_winning_rate_refuses_what_it_cannot_mean() -> None:
    with pytest.raises(ValueError, match="strategy 'logo'"):
        winning_rate(against([WON]), "a", "logo")
    both = pd.concat([against([WON], "one"), against([WON], "two")])
    with pytest.raises(ValueError, match="one setting, not of 2"):
        winning_rate(both, "a", "b")


# -------------------------------------------------------------------------------------- penalty matrix


def three_strategies() -> pd.DataFrame:
    base, up, down = [60.0] * 4, [63.0, 64.0, 63.0, 64.0], [58.0, 57.0, 58.0, 57.0]
    one = table("one", a=[base, up], b=[base, base], c=[base, base])
    two = table("two", a=[base, up], b=[base, base], c=[base, down])
    return pd.concat([one, two])


def test_penalty_matrix_by_hand() -> None:
    P = penalty_matrix(three_strategies())
    expected = [[0.0, 1, 1], [0, 0, 0.5], [0, 0, 0], [0, 1 / 2, 1.5 / 2]]
    pd.testing.assert_frame_equal(
        P, pd.DataFrame(expected, index=["a", "b", "c", AVERAGE], columns=list("abc"))
    )


def test_winning_rates_of_every_setting() -> None:
    rates = winning_rates(three_strategies()).set_index(["setting", "i", "j"])
    assert len(rates) == 2 * 3 * 2
    assert rates.loc[("two", "b", "c")].tolist() == [0.5, 2, ""]
    assert rates.loc[("one", "b", "c")].tolist() == [0, 2, ""]


def test_a_strategy_missing_from_a_setting_adds_nothing_and_is_named() -> None:
    curves = three_strategies().query("not (setting == 'two' and strategy == 'c')")
    assert penalty_matrix(curves).loc["a"].tolist() == [0, 1, 0.5]
    untested = winning_rates(curves).query("reason != ''")
    assert set(zip(untested["i"], untested["j"], strict=True)) == {
        ("a", "c"),
        ("b", "c"),
        ("c", "a"),
        ("c", "b"),
    }
    assert set(untested["setting"]) == {"two"}
    assert set(untested["reason"]) == {NOTHING_IN_COMMON}


def test_penalty_matrix_of_one_strategy() -> None:
    P = penalty_matrix(table(a=[[60.0, 61.0]]))
    assert P.to_numpy().tolist() == [[0], [0]]


@settings(deadline=None, max_examples=20)
@given(random_curves())
def test_penalties_are_rates_and_nobody_beats_himself(curves: pd.DataFrame) -> None:
    P = penalty_matrix(curves).to_numpy()
    assert (np.diag(P[:-1]) == 0).all()
    assert (P >= 0).all()
    assert (P[:-1] + P[:-1].T <= 1).all()  # a round is won by one of the two at most


# ---------------------------------------------------------------------------------------- paired tests


def test_paired_test_by_hand() -> None:
    """t = 3.873 with 3 degrees of freedom: p = 0.0305."""
    row = paired_tests(against([[1, 2, 3, 4]])).iloc[0]
    assert (row["al_round"], row["i"], row["j"], row["n"], row["reason"]) == (1, "a", "b", 4, "")
    assert row["mean_difference"] == pytest.approx(2.5)
    assert row["t"] == pytest.approx(3.8729833)
    assert row["p"] == row["p_holm"] == pytest.approx(0.0304662, abs=1e-6)
    assert row["significant"]


def test_exact_test_rejects_what_the_paper_counts() -> None:
    """2.776 < t < 3.182: a win for the paper, not significant with 3 degrees of freedom."""
    curves = against([[0.4, 1, 1, 2.2]])
    assert winning_rate(curves, "a", "b").rate == 1
    assert not paired_tests(curves)["significant"].any()


def test_paired_tests_agree_with_scipy() -> None:
    accuracy = np.random.default_rng(2).normal(60, 2, (3, 4, 5))
    tests = paired_tests(table(a=accuracy[0], b=accuracy[1], c=accuracy[2]))
    assert len(tests) == 4 * 3
    for row in tests.itertuples():
        first, second = ("abc".index(name) for name in (row.i, row.j))
        expected = stats.ttest_rel(accuracy[first, row.al_round - 1], accuracy[second, row.al_round - 1])
        assert (row.t, row.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == pytest.approx([1, 1])
    assert holm([0.02]) == pytest.approx([0.02])
    assert holm([math.nan, 0.01, 0.04]) == pytest.approx([math.nan, 0.02, 0.04], nan_ok=True)
    assert holm([math.nan, math.nan]) == pytest.approx([math.nan, math.nan], nan_ok=True)


def test_holm_corrects_within_a_round_and_setting() -> None:
    a, b, c = [61.0, 62, 63, 64], [60.0] * 4, [60.0, 61, 59, 60]
    curves = pd.concat([table("one", a=[b, a], b=[b, b], c=[b, c]), table("two", a=[a], b=[b])])
    tests = paired_tests(curves)
    for _, group in tests.groupby(["setting", "al_round"]):
        assert group["p_holm"].to_numpy() == pytest.approx(holm(group["p"]), nan_ok=True)
    second = tests.query("setting == 'one' and al_round == 2 and i == 'a' and j == 'b'").iloc[0]
    assert second["p"] == pytest.approx(0.0304662, abs=1e-6)
    assert second["p_holm"] > 0.05  # not significant among three pairs ...
    assert tests.query("setting == 'two' and n == 4")["significant"].tolist() == [True]  # ... but alone


def test_first_round_is_a_tie() -> None:
    row = paired_tests(against([[0, 0, 0, 0]])).iloc[0]
    assert (row["mean_difference"], row["t"], row["p"], row["p_holm"]) == (0, 0, 1, 1)
    assert not row["significant"]


def test_a_constant_lead_is_significant() -> None:
    row = paired_tests(against([[-2, -2]])).iloc[0]
    assert (row["t"], row["p"], row["p_holm"], row["significant"]) == (-math.inf, 0, 0, True)


def test_one_seed_and_nothing_in_common_have_no_test() -> None:
    nan = math.nan
    curves = table(a=[[60, 61], [60, 61], [60, nan]], b=[[59, 57], [59, nan], [nan, 57]])
    tests = paired_tests(curves)
    assert tests["n"].tolist() == [2, 1, 0]
    assert tests["reason"].tolist() == ["", ONE_SEED, NOTHING_IN_COMMON]
    assert tests["mean_difference"].to_numpy() == pytest.approx([2.5, 1, nan], nan_ok=True)
    assert tests[["t", "p", "p_holm"]].iloc[1:].isna().all(axis=None)
    assert not tests["significant"].any()


def test_untested_pairs_do_not_count_for_holm() -> None:
    nan = math.nan
    curves = table(a=[[61, 62, 63, 64]], b=[[60.0] * 4], c=[[60, nan, nan, nan]])
    tests = paired_tests(curves).set_index(["i", "j"])
    assert tests.loc[("a", "b"), "p_holm"] == tests.loc[("a", "b"), "p"]
    assert tests.loc[("a", "c"), "reason"] == ONE_SEED


def test_no_pair_no_test() -> None:
    assert paired_tests(table(a=[[60.0, 61.0]])).empty


@settings(deadline=None, max_examples=20)
@given(random_curves(), st.integers(-50, 50), st.randoms(use_true_random=False))
def test_tests_ignore_shifts_the_order_of_rows_and_the_names_of_seeds(
    curves: pd.DataFrame, shift: int, random: Random
) -> None:
    seeds = sorted(curves["seed"].unique())
    names = dict(zip(seeds, random.sample(seeds, len(seeds)), strict=True))
    changed = curves.assign(accuracy=curves["accuracy"] + shift, seed=curves["seed"].map(names))
    changed = changed.sample(frac=1, random_state=random.randrange(1000))
    pd.testing.assert_frame_equal(paired_tests(changed), paired_tests(curves), atol=1e-7)


@settings(deadline=None, max_examples=20)
@given(random_curves(names="ab"))
def test_tests_are_antisymmetric(curves: pd.DataFrame) -> None:
    """With the names exchanged, b is a: all scores change sign, no p-value moves."""
    tests = paired_tests(curves)
    swapped = paired_tests(curves.assign(strategy=curves["strategy"].map({"a": "b", "b": "a"})))
    np.testing.assert_array_equal(swapped["t"], -tests["t"])
    np.testing.assert_array_equal(swapped["p"], tests["p"])


# ------------------------------------------------------------------------------------ confidence bands


def test_band_of_two_seeds_by_hand() -> None:
    """Resamples of {60, 62} have mean 60, 61 and 62 with chances ¼, ½ and ¼."""
    curves = table(a=[[60.0, 62.0]])
    row = confidence_band(curves, rng=np.random.default_rng(1)).iloc[0]
    assert row[["n", "mean", "low", "high", "reason"]].tolist() == [2, 61, 60, 62, ""]
    row = confidence_band(curves, level=0.4, rng=np.random.default_rng(1)).iloc[0]
    assert row[["low", "high"]].tolist() == [61, 61]


def test_band_of_one_seed_is_flagged() -> None:
    row = confidence_band(table(a=[[60.1]]), rng=np.random.default_rng(1)).iloc[0]
    assert row[["n", "mean", "low", "high", "reason"]].tolist() == [1, 60.1, 60.1, 60.1, ONE_SEED]


def test_band_of_many_seeds_is_the_normal_one() -> None:
    seeds = np.random.default_rng(1).normal(60, 2, 400)
    row = confidence_band(table(a=[seeds.tolist()]), rng=np.random.default_rng(2)).iloc[0]
    half = 1.96 * seeds.std() / 20
    assert (row["low"], row["high"]) == pytest.approx((row["mean"] - half, row["mean"] + half), abs=0.02)


def test_band_is_reproducible_and_skips_what_is_not_there() -> None:
    curves = table(a=[[60.0, 62.0, 61.0], [65.0, math.nan, 66.0]], b=[[60.0, 62.0]])
    band = confidence_band(curves, rng=np.random.default_rng(3))
    assert band[["strategy", "al_round", "n"]].to_numpy().tolist() == [["a", 1, 3], ["a", 2, 2], ["b", 1, 2]]
    again = confidence_band(curves.sample(frac=1, random_state=0), rng=np.random.default_rng(3))
    pd.testing.assert_frame_equal(again, band)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_levels_are_between_zero_and_one(level: float) -> None:
    with pytest.raises(ValueError, match="confidence level"):
        confidence_band(table(a=[[60.0]]), level=level, rng=np.random.default_rng(1))


@settings(deadline=None, max_examples=20)
@given(random_curves(), st.integers(0, 100))
def test_band_contains_the_mean_within_the_seeds(curves: pd.DataFrame, seed: int) -> None:
    band = confidence_band(curves, rng=np.random.default_rng(seed), resamples=1000)
    seeds = curves.groupby(["strategy", "al_round"])["accuracy"]
    assert band["mean"].to_numpy() == pytest.approx(seeds.mean().to_numpy())
    steps = [seeds.min(), band["low"], band["mean"], band["high"], seeds.max()]
    assert (np.diff(np.stack([np.asarray(step) for step in steps]), axis=0) >= -1e-9).all()


# ------------------------------------------------------------------------------------------------ aubc


def test_aubc_by_hand() -> None:
    """Trapezoids over 5, 10, 20%: (5·(50 + 60)/2 + 10·(60 + 70)/2)/15 = 61.67."""
    rows = [("a", 1, 1, 5.0, 50.0), ("a", 1, 2, 10.0, 60.0), ("a", 1, 3, 20.0, 70.0), ("a", 2, 1, 5.0, 40.0)]
    areas = aubc(pd.DataFrame(rows, columns=COLUMNS))
    assert areas[["strategy", "seed", "rounds"]].to_numpy().tolist() == [["a", 1, 3], ["a", 2, 1]]
    assert areas["aubc"].tolist() == pytest.approx([(275 + 650) / 15, 40])


def test_aubc_without_a_span_is_the_mean() -> None:
    rows = [("a", 1, 1, 100.0, 50.0), ("a", 1, 2, 100.0, 60.0)]
    assert aubc(pd.DataFrame(rows, columns=COLUMNS))["aubc"].tolist() == [55]


def test_aubc_by_setting() -> None:
    areas = aubc(pd.concat([table("one", a=[[50.0], [60.0]]), table("two", a=[[70.0], [80.0]])]))
    assert areas[["setting", "aubc"]].to_numpy().tolist() == [["one", 55], ["two", 75]]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.lists(st.integers(1, 100), min_size=1, max_size=6, unique=True))
def test_aubc_of_a_constant_is_the_constant(correct: int, labelled: list[int]) -> None:
    rows = [("a", 1, r, float(x), correct / 10) for r, x in enumerate(sorted(labelled))]
    assert aubc(pd.DataFrame(rows, columns=COLUMNS))["aubc"].tolist() == pytest.approx([correct / 10])


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("function", [winning_rates, penalty_matrix, paired_tests, aubc])
def test_curves_are_checked(function: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    curves = against([WON])
    with pytest.raises(ValueError, match="without labelled"):
        function(curves.drop(columns="labelled"))
    with pytest.raises(ValueError, match="missing values"):
        function(curves.assign(accuracy=math.nan))
    with pytest.raises(ValueError, match="two rows"):
        function(pd.concat([curves, curves]))


def test_answers_name_the_setting_if_the_curves_do() -> None:
    for function in (winning_rates, paired_tests, aubc):
        assert "setting" not in function(against([WON]))
        assert "setting" in function(against([WON], "one"))
