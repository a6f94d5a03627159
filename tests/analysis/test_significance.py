"""Paired tests, bands and areas, on numbers small enough to check by hand."""

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
    EQUAL,
    NOTHING_IN_COMMON,
    ONE_SEED,
    PAPER_THRESHOLD,
    aubc,
    confidence_band,
    holm,
    paired_tests,
    penalty_matrix,
    winning_rate,
    winning_rates,
)
from support.curve_tables import COLUMNS, WON, against, random_curves, table

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
    assert winning_rate(curves, "a", "b", PAPER_THRESHOLD).rate == 1
    assert winning_rate(curves, "a", "b").rate == 0
    assert not paired_tests(curves)["significant"].any()


def test_paired_tests_agree_with_scipy() -> None:
    accuracy = np.random.default_rng(2).normal(60, 2, (3, 4, 5))
    tests = paired_tests(table(a=accuracy[0], b=accuracy[1], c=accuracy[2]))
    assert tests.index.tolist() == list(range(4 * 3))
    for row in tests.itertuples():
        first, second = ("abc".index(name) for name in (row.i, row.j))
        expected = stats.ttest_rel(accuracy[first, row.al_round - 1], accuracy[second, row.al_round - 1])
        assert (row.t, row.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == pytest.approx([1, 1])
    assert holm([0.6, 0.7]) == pytest.approx([1, 1])  # never above 1
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


def test_a_lead_that_is_the_same_for_all_seeds_has_no_test() -> None:
    row = paired_tests(against([[-2, -2]])).iloc[0]
    assert (row["mean_difference"], row["t"], row["reason"]) == (-2, -math.inf, EQUAL)
    assert row[["p", "p_holm"]].isna().all()
    assert not row["significant"]


def test_false_claims_are_as_rare_as_promised_where_accuracies_are_counts() -> None:
    """Ten strategies that are equally good, two seeds, 100 test images: in a round 45 pairs are tested."""
    right = np.random.default_rng(1).binomial(100, 0.9, (10, 200, 2)).astype(float)
    tests = paired_tests(table(**{f"s{k}": rounds.tolist() for k, rounds in enumerate(right)}))
    assert (tests["reason"] == EQUAL).any()
    assert tests.groupby("al_round")["significant"].any().mean() <= 0.05


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


def test_a_strategy_that_a_setting_lacks_has_no_band_there() -> None:
    curves = pd.concat([table("one", a=[[60.0, 61.0]], b=[[60.0, 62.0]]), table("two", b=[[60.0, 61.0]])])
    band = confidence_band(curves, rng=np.random.default_rng(3))
    assert band[["setting", "strategy"]].to_numpy().tolist() == [["one", "a"], ["one", "b"], ["two", "b"]]


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


def test_a_span_of_less_than_a_percent_is_a_span() -> None:
    rows = [("a", 1, 1, 5.0, 50.0), ("a", 1, 2, 5.1, 50.0), ("a", 1, 3, 5.5, 60.0)]
    assert aubc(pd.DataFrame(rows, columns=COLUMNS))["aubc"].tolist() == pytest.approx([54])


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
