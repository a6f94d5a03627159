import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.analysis.verdicts import (
    HELD,
    LEVEL,
    NOT_HELD,
    UNDECIDED,
    Sides,
    best_or_second_flips,
    best_or_second_test,
    judge,
    largest_tail,
    residual_spread,
    sign_flip_test,
    standard_error,
    sum_test,
)


def table(rows: int, seeds: int, rng: int = 0) -> np.ndarray:
    """Rows that scatter by 1 around their means, with an effect of each seed that is much larger."""
    random = np.random.default_rng(rng)
    return random.normal(size=(rows, seeds)) + 10 * random.normal(size=seeds)


class TestPooledVariance:
    def test_by_hand(self):
        """Row means 2 and 4, seed means 2, 4, 3, grand mean 3: residuals 0, -1, 1 and their opposites."""
        spread = residual_spread(np.array([[1.0, 2.0, 3.0], [3.0, 6.0, 3.0]]))
        assert spread == (pytest.approx(4 / 2), 2)

    def test_is_that_of_a_two_way_layout(self):
        """Least squares with a column for every row and every seed leaves the same residuals."""
        Y = table(12, 4)
        design = np.column_stack([np.kron(np.eye(12), np.ones((4, 1))), np.tile(np.eye(4), (12, 1))])
        fitted = design @ np.linalg.lstsq(design, Y.ravel(), rcond=None)[0]
        variance, freedom = residual_spread(Y)
        assert freedom == Y.size - np.linalg.matrix_rank(design) == 33
        assert variance == pytest.approx(((Y.ravel() - fitted) ** 2).sum() / 33)

    @given(shift=st.floats(-50, 50), seed=st.integers(0, 99))
    def test_neither_rows_nor_seeds_shift_it(self, shift, seed):
        Y = table(5, 4, seed)
        moved = Y + shift * np.arange(5)[:, None] - shift * np.arange(4)
        assert residual_spread(moved).variance == pytest.approx(residual_spread(Y).variance)

    def test_is_right_on_average(self):
        assert np.mean([residual_spread(table(12, 4, k)).variance for k in range(500)]) == pytest.approx(
            1, abs=0.03
        )

    def test_two_rows_are_the_paired_t_test(self):
        Y = table(2, 6)
        Y[0] += 1
        for side, alternative in zip(sum_test(Y, [1, -1]), ("greater", "less"), strict=True):
            assert side == pytest.approx(scipy.stats.ttest_rel(Y[0], Y[1], alternative=alternative).pvalue)

    def test_standard_error_of_a_sum(self):
        """A row less the middle of two others: Σ w² = 1.5."""
        Y = table(12, 4)
        weights = [1, -0.5, -0.5] + [0] * 9
        assert standard_error(Y, weights) == pytest.approx(np.sqrt(residual_spread(Y).variance * 1.5 / 4))

    def test_equal_differences_decide_nothing(self):
        assert sum_test(np.array([[2.0, 3.0], [1.0, 2.0]]), [1, -1]) == (0.5, 0.5)


class TestLargestOfMany:
    @pytest.mark.parametrize("freedom", [1, 3, 33, 121])
    @pytest.mark.parametrize("t", [-2.0, 0.0, 1.5, 4.0])
    def test_of_one_is_students(self, t, freedom):
        assert largest_tail(t, 1, freedom) == pytest.approx(scipy.stats.t.sf(t, freedom), rel=1e-6)

    @pytest.mark.parametrize(("k", "freedom", "critical"), [(2, 10, 2.15), (9, 20, 2.60), (9, 10**6, 2.42)])
    def test_dunnetts_table(self, k, freedom, critical):
        """One-sided 5% points of Dunnett's table, with two decimals."""
        assert largest_tail(critical, k, freedom) == pytest.approx(0.05, abs=0.0007)

    def test_as_simulated(self):
        random = np.random.default_rng(0)
        z, u = random.normal(size=(200_000, 11)), np.sqrt(random.chisquare(33, 200_000) / 33)
        largest = (z[:, 1:] - z[:, :1]).max(axis=1) / (np.sqrt(2) * u)
        for t in (1.0, 2.0, 3.0):
            assert largest_tail(t, 10, 33) == pytest.approx((largest >= t).mean(), abs=0.003)

    def test_it_is_a_probability_in_the_last_bit_too(self):
        assert max(largest_tail(t, k, 33) for t in range(-12, 0) for k in (1, 10)) == 1

    def test_infinite_scores(self):
        assert (largest_tail(np.inf, 2, 3), largest_tail(-np.inf, 2, 3)) == (0, 1)


class TestBestOrSecond:
    def test_equal_rows_are_seldom_judged(self):
        """Twelve equal rows, four seeds: either verdict is false or lucky in no more than its 2.5%."""
        sides = np.array([best_or_second_test(table(12, 4, k), 0) for k in range(800)])
        up, down = (sides <= LEVEL).mean(axis=0)
        assert up <= LEVEL + 0.011  # two standard errors of 800 draws
        assert 0.001 <= down <= LEVEL + 0.011

    def test_at_the_edges_of_both_claims_the_level_is_kept(self):
        """Third among equals of it and two rivals, above the others: "held" is false, and as likely as allowed.
        Second behind one, equal with ten: "not held" is false."""
        held, not_held = [], []
        for k in range(800):
            Y = table(12, 4, k)
            third, second = Y.copy(), Y.copy()
            third[3:] -= 50
            second[1] += 50
            held.append(best_or_second_test(third, 0).up <= LEVEL)
            not_held.append(best_or_second_test(second, 0).down <= LEVEL)
        assert 0.008 < np.mean(held) <= LEVEL + 0.011
        assert np.mean(not_held) <= LEVEL + 0.011

    def test_the_second_lead_against_two_rivals_and_the_second_arrears_against_ten(self):
        Y = table(12, 4)
        t = sorted((Y[3] - Y[k]).mean() / standard_error(Y, [1, -1]) for k in range(12) if k != 3)
        expected = largest_tail(t[1], 2, 33), largest_tail(-t[1], 10, 33)
        assert best_or_second_test(Y, 3) == pytest.approx(expected)

    def test_clear_cases(self):
        Y = table(12, 4) + 20.0 * np.arange(12)[:, None]
        assert best_or_second_test(Y, 11).up < 1e-6
        assert best_or_second_test(Y, 10).up < 1e-6  # second: one is better, and that is allowed
        assert best_or_second_test(Y, 9).down < 1e-6
        assert best_or_second_test(Y, 10).down > 0.9


class TestSignFlips:
    def test_by_hand(self):
        """Of the eight sums of ±1, ±2, ±3, six is the largest and -4 is the second smallest but one."""
        assert sign_flip_test([1, 2, 3]) == (1 / 8, 1)
        assert sign_flip_test([-1, -3, 0.0]) == (1, 2 / 8)  # a zero has both signs
        assert sign_flip_test([1, -2, -3]) == (7 / 8, 2 / 8)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.integers(-5, 5), min_size=2, max_size=9))
    def test_is_that_of_scipy_with_all_patterns(self, differences):
        def against(alternative):
            return scipy.stats.permutation_test(
                (np.array(differences, float),),
                np.sum,
                permutation_type="samples",
                n_resamples=np.inf,
                alternative=alternative,
            ).pvalue

        expected = [against("greater"), against("less")]
        assert list(sign_flip_test(differences)) == pytest.approx(expected)

    def test_is_exact_under_any_symmetric_law(self):
        """With Cauchy's differences and six seeds, p ≤ 2/64 comes in two of 64 cases."""
        draws = np.random.default_rng(0).standard_cauchy((4000, 6))
        small = [sign_flip_test(d).up <= 2 / 64 for d in draws]
        assert np.mean(small) == pytest.approx(2 / 64, abs=0.008)

    def test_best_or_second_by_the_second_worst_pair(self):
        Y = np.zeros((12, 10))
        Y[0] = 1
        assert best_or_second_flips(Y, 0) == (2 / 2**10, 1)
        Y[5:7] = 2
        assert best_or_second_flips(Y, 0) == (1, 10 / 2**10)

    def test_as_many_seeds_as_allowed(self, monkeypatch):
        monkeypatch.setattr("fedactive.analysis.verdicts.MOST_FLIPS", 3)
        assert sign_flip_test([1, 2, 3]) == (1 / 8, 1)

    def test_too_many_seeds(self):
        with pytest.raises(ValueError, match="at most 22 seeds, not 30"):
            sign_flip_test(np.ones(30))


class TestVerdicts:
    def test_holm_over_all_claims(self):
        """0.012·2 is at most 2.5%, so is 0.02·1; alone in a third claim's company neither would be."""
        sides = [Sides(0.012, 0.988), Sides(0.02, 0.98)]
        no_flips = [Sides(np.nan, np.nan)]
        assert [v for v, _ in judge(sides, no_flips * 2, [4, 4])] == [HELD, HELD]
        three = [*sides, Sides(0.5, 0.5)]
        assert [v for v, _ in judge(three, no_flips * 3, [4] * 3)] == [UNDECIDED] * 3
        assert judge(three, no_flips * 3, [4] * 3)[0][1] == pytest.approx(0.036)

    def test_either_direction_and_claims_without_a_test(self):
        sides = [Sides(np.nan, np.nan), Sides(0.999, 0.001), Sides(0.01, 0.99)]
        found = judge(sides, [Sides(np.nan, np.nan)] * 3, [1, 4, 4])
        assert [verdict for verdict, _ in found] == [UNDECIDED, NOT_HELD, HELD]
        assert np.isnan(found[0][1])

    def test_from_nine_seeds_on_the_sign_flips_must_agree(self):
        sides, flips = [Sides(0.001, 0.999)], [Sides(0.03, 0.98)]
        assert [judge(sides, flips, [n])[0][0] for n in (8, 9)] == [HELD, UNDECIDED]
        assert judge(sides, [Sides(0.02, 0.98)], [9])[0][0] == HELD
        assert judge([Sides(0.5, 0.5)], [Sides(0.98, 0.02)], [9])[0][0] == UNDECIDED

    def test_the_level_itself_is_enough(self):
        up, down = Sides(LEVEL, 1 - LEVEL), Sides(1 - LEVEL, LEVEL)
        assert judge([up], [up], [9])[0][0] == HELD
        assert judge([down], [down], [9])[0][0] == NOT_HELD

    def test_of_many_equal_claims_one_in_forty_runs_has_any_false_verdict(self):
        """Sixteen true nulls of independent datasets: any verdict at all is false."""
        random = np.random.default_rng(1)
        wrong = 0
        for _ in range(1500):
            up = random.uniform(size=16)
            verdicts = judge([Sides(p, 1 - p) for p in up], [Sides(np.nan, np.nan)] * 16, [4] * 16)
            wrong += any(verdict != UNDECIDED for verdict, _ in verdicts)
        assert wrong / 1500 <= 0.05 + 0.011
