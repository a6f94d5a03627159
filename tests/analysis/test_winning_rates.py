"""The paper's numbers: t-scores, winning rates and the penalty matrix, by hand."""

from __future__ import annotations

import math

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
    THRESHOLDS,
    exact_threshold,
    penalty_matrix,
    t_score,
    winning,
    winning_rate,
    winning_rates,
)
from support.curve_tables import CLOSE, WON, against, random_curves, table

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
    assert winning_rate(against([[t - 1, t + 1]]), "a", "b", PAPER_THRESHOLD).rate == wins


def test_a_score_at_the_threshold_does_not_win() -> None:
    differences = [2.776 - 1, 2.776 + 1]
    assert t_score(differences) == PAPER_THRESHOLD == 2.776
    curves = table(a=[differences], b=[[0.0, 0.0]])
    assert winning_rate(curves, "a", "b", THRESHOLDS["paper"]).rate == 0
    assert winning_rate(curves, "a", "b", threshold=np.nextafter(2.776, 0)).rate == 1


@pytest.mark.parametrize(("n", "value"), [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (16, 2.131)])
def test_the_exact_threshold_follows_the_number_of_seeds(n: int, value: float) -> None:
    assert exact_threshold(n) == pytest.approx(value, abs=5e-4)
    assert exact_threshold(n) == pytest.approx(stats.t.ppf(0.975, df=n - 1))


@pytest.mark.parametrize(("n", "by_paper"), [(2, 0.11), (3, 0.055), (4, 0.035)])
def test_how_often_equals_win(n: int, by_paper: float) -> None:
    """Of a win either way: 5% whatever the number of seeds; by the paper's threshold twice as many as here."""
    random = np.random.default_rng(n)
    curves = table(a=random.normal(size=(3000, n)).tolist(), b=random.normal(size=(3000, n)).tolist())
    assert winning_rate(curves, "a", "b").rate == pytest.approx(0.025, abs=0.008)
    assert winning_rate(curves, "a", "b", PAPER_THRESHOLD).rate == pytest.approx(by_paper, abs=0.012)


def test_the_exact_threshold_is_stricter_for_four_seeds() -> None:
    assert stats.t.ppf(0.975, df=4) == pytest.approx(PAPER_THRESHOLD, abs=5e-4)
    curves = against([[0.5, 1, 1, 2.2]])  # t = 2·1.175/0.7274 = 3.23
    curves_between = against([[0.4, 1, 1, 2.2]])  # t = 2·1.15/0.7550 = 3.05
    assert winning_rate(curves, "a", "b", threshold=3.182).rate == 1
    assert winning_rate(curves_between, "a", "b", threshold=3.182).rate == 0
    assert winning_rate(curves_between, "a", "b").rate == 0
    assert winning_rate(curves_between, "a", "b", PAPER_THRESHOLD).rate == 1


def test_what_it_means_to_win_is_said() -> None:
    assert winning().endswith(" t-score over it is above the exact two-sided 5% value for its seeds.")
    assert winning(PAPER_THRESHOLD).endswith(" t-score over it is above 2.776.")


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
    one_in_a_round = table(a=[[60, nan], [60, 61]], b=[[nan, 60], [60, nan]])
    assert winning_rate(one_in_a_round, "a", "b") == (0, 0, ONE_SEED)


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


def test_penalty_matrix_of_two_strategies_in_the_order_of_their_names() -> None:
    P = penalty_matrix(against([[0, 0, 0, 0], WON])[::-1])
    assert P.columns.tolist() == ["a", "b"]
    assert P.to_numpy().tolist() == [[0, 0.5], [0, 0], [0, 0.5]]  # b is beaten by the one other


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
