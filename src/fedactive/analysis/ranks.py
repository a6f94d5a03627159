"""Mean ranks of methods over many comparisons, and how far apart two must be to differ.

Scores are a table: a row for each comparison (a setting at a budget), a column per method, higher is better.
Friedman's test asks whether the methods differ at all; Nemenyi's critical difference, which two of them do
(Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 2006).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from fedactive.analysis.significance import ROUNDING, SIGNIFICANCE

MANY = 10**6  # degrees of freedom that stand for infinitely many


class Ranks(NamedTuple):
    means: pd.Series  # by method, the best first: 1 is best everywhere
    comparisons: int
    p: float  # Friedman's test: the chance of such ranks if all methods were equal; NaN: not to be tested
    critical_difference: float  # of two mean ranks; NaN with fewer than two methods or comparisons


def rank_methods(scores: pd.DataFrame, error_rate: float = SIGNIFICANCE) -> Ranks:
    """Rank the methods in every comparison, equal scores alike, and test the mean ranks.

    A comparison that lacks a score of some method says nothing and is left out.
    """
    known = scores.dropna()
    # Rounding: accuracies are means of counts, and equal ones may differ in the last bit.
    ranks = (known / ROUNDING).round().rank(axis="columns", ascending=False)
    means = ranks.mean().sort_values(kind="stable")
    return Ranks(means, len(known), friedman(ranks), critical_difference(len(means), len(known), error_rate))


def friedman(ranks: pd.DataFrame) -> float:
    """Return the p-value of Friedman's test, corrected for ties; NaN where there is nothing to compare."""
    import scipy.special

    N, k = ranks.shape
    if N < 2 or k < 2:
        return np.nan
    R = ranks.to_numpy(float)
    spread = (R**2).sum() - N * k * (k + 1) ** 2 / 4  # N·k·(k + 1)·(k - 1)/12 without ties
    if spread < ROUNDING:  # all are equal everywhere
        return 1.0
    between = ((R.sum(axis=0) - N * (k + 1) / 2) ** 2).sum()
    return float(scipy.special.chdtrc(k - 1, (k - 1) * between / spread))


def critical_difference(methods: int, comparisons: int, error_rate: float = SIGNIFICANCE) -> float:
    """Compute Nemenyi's CD = q·√(k(k + 1)/6N), with q of the studentised range for k methods, over √2."""
    if methods < 2 or comparisons < 2:
        return np.nan
    import scipy.stats  # here, because importing it takes most of a second

    q = scipy.stats.studentized_range.ppf(1 - error_rate, methods, MANY) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * comparisons)))


def cliques(means: pd.Series, difference: float) -> list[list[str]]:
    """List the largest groups of methods whose mean ranks lie within the critical difference.

    `means` are sorted. A group of one is none, and a group within another is left out.
    """
    names, values = list(map(str, means.index)), means.to_numpy(float)
    found: list[list[str]] = []
    last = 0  # where the group before ended
    for begin in range(len(values)):
        end = int(np.searchsorted(values, values[begin] + difference, side="right"))
        if end - begin > 1 and end > last:
            found.append(names[begin:end])
            last = end
    return found
