"""Judge claims about rows of results, by the rule in docs/STATISTICS.md.

`Y` is always a table with a row for each strategy and a column for each seed. Seeds are paired. Every test
answers in two one-sided p-values: `up` against "it is 0 or less", `down` against "it is 0 or more".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fedactive.analysis.significance import ROUNDING, holm

HELD, NOT_HELD, UNDECIDED = "held", "not held", "undecided"
LEVEL = 0.025  # of either direction: 5% in all
SEEDS_OF_FLIPS = 9  # from here on the sign-flip test can always reach the level, and must
MOST_FLIPS = 22  # seeds; 4 million patterns

Table = NDArray[np.float64]


class Sides(NamedTuple):
    up: float
    down: float


class Spread(NamedTuple):
    """The scatter of rows around their means once the seeds' own effects are taken out."""

    variance: float
    freedom: int


def residual_spread(Y: Table) -> Spread:
    """Pool s² = Σ (Y_rs - Ȳ_r - Ȳ_s + Ȳ)² / ((R-1)(n-1)) over all rows."""
    R, n = Y.shape
    residuals = Y - Y.mean(axis=1, keepdims=True) - Y.mean(axis=0, keepdims=True) + Y.mean()
    freedom = (R - 1) * (n - 1)
    return Spread(float((residuals**2).sum()) / freedom, freedom)


def standard_error(Y: Table, weights: ArrayLike) -> float:
    """Compute s·√(Σ w²/n), that of a weighted sum of row means."""
    w = np.asarray(weights, dtype=np.float64)
    return float(np.sqrt(residual_spread(Y).variance * (w**2).sum() / Y.shape[1]))


def sum_test(Y: Table, weights: ArrayLike) -> Sides:
    """Test Σ w_r·μ_r with the pooled variance."""
    w, freedom = np.asarray(weights, dtype=np.float64), residual_spread(Y).freedom
    t = _ratio(float(w @ Y.mean(axis=1)), standard_error(Y, w))
    return Sides(float(scipy.special.stdtr(freedom, -t)), float(scipy.special.stdtr(freedom, t)))


def best_or_second_test(Y: Table, row: int) -> Sides:
    """Test whether a row is best or second, without picking its rival by the result.

    If it is not, two others are at least as good: the second smallest lead is no larger than the larger of
    theirs. If it is, all but one are no better: the second largest arrears are no larger than those of ten.
    """
    leads, others = _leads(Y, row), len(Y) - 1
    freedom = residual_spread(Y).freedom
    error = standard_error(Y, [1, -1])
    t = np.sort([_ratio(lead, error) for lead in leads.mean(axis=1)])
    return Sides(largest_tail(t[1], 2, freedom), largest_tail(-t[1], others - 1, freedom))


def largest_tail(t: float, k: int, freedom: int) -> float:
    """Compute P(max of k ≥ t) of Student's T_j = (Z_j - Z_0)/(√2·U), which share Z_0 and U: Dunnett's test.

    That is 1 - E Φ(Z_0 + √2·t·U)^k with U² = χ²/freedom, integrated by Gauss and Legendre.
    """
    if np.isinf(t):
        return float(t < 0)
    z, z_weight = _nodes(-9.0, 9.0)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    half = freedom / 2
    u, u_weight = _nodes(*np.sqrt(scipy.special.chdtri(freedom, [1 - 1e-15, 1e-15]) / freedom))
    log_u = np.log(2) + half * np.log(half) - scipy.special.gammaln(half) + (freedom - 1) * np.log(u)
    of_u = np.exp(log_u - half * u**2)
    tail = -np.expm1(k * scipy.special.log_ndtr(z[:, None] + np.sqrt(2) * t * u))
    return float(np.clip((z_weight * density) @ tail @ (u_weight * of_u), 0, 1))


def sign_flip_test(differences: ArrayLike) -> Sides:
    """Count, among all 2ⁿ patterns of signs of n differences, those with as large a sum, or as small."""
    d = np.asarray(differences, dtype=np.float64)
    if len(d) > MOST_FLIPS:
        raise ValueError(f"a sign-flip test takes at most {MOST_FLIPS} seeds, not {len(d)}")
    sums = np.zeros(1)
    for x in d:
        sums = np.concatenate([sums + x, sums - x])
    return Sides(float((sums >= d.sum() - ROUNDING).mean()), float((sums <= d.sum() + ROUNDING).mean()))


def best_or_second_flips(Y: Table, row: int) -> Sides:
    """Do as `best_or_second_test` by sign flips of each pair, with Bonferroni's factors 2 and 10."""
    leads = _leads(Y, row)
    ups, downs = zip(*(sign_flip_test(lead) for lead in leads), strict=True)
    return Sides(min(1.0, 2 * sorted(ups)[-2]), min(1.0, (len(leads) - 1) * sorted(downs)[1]))


def judge(tests: Sequence[Sides], flips: Sequence[Sides], seeds: Sequence[int]) -> list[tuple[str, float]]:
    """Return each claim's verdict, with Holm's p over all of them in the direction that is the more likely.

    A claim without a test has NaN, and does not count for Holm.
    """
    ups, downs = holm([test.up for test in tests]), holm([test.down for test in tests])
    verdicts = []
    for up, down, flip, n in zip(ups, downs, flips, seeds, strict=True):
        held, not_held = up <= LEVEL, down <= LEVEL
        if n >= SEEDS_OF_FLIPS:
            held, not_held = held and flip.up <= LEVEL, not_held and flip.down <= LEVEL
        verdict = HELD if held else NOT_HELD if not_held else UNDECIDED
        verdicts.append((verdict, float(np.fmin(up, down))))
    return verdicts


def _leads(Y: Table, row: int) -> Table:
    leads: Table = Y[row] - np.delete(Y, row, axis=0)
    return leads


def _ratio(mean: float, error: float) -> float:
    """Divide; differences that are all equal say nothing about chance, as in `significance.paired_tests`."""
    return mean / error if error > ROUNDING else 0.0


def _nodes(low: float, high: float) -> tuple[Table, Table]:
    x, weight = _legendre()
    return low + (x + 1) * (high - low) / 2, weight * (high - low) / 2


@cache
def _legendre() -> tuple[Table, Table]:
    return np.polynomial.legendre.leggauss(64)
