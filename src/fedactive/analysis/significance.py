"""Compare strategies: the paper's winning rates, and tests with correct error rates.

`curves` is always a table of learning curves with the columns `strategy, seed, al_round, labelled, accuracy`
(in percent), and `setting` where several settings are compared; results have that column if the curves do.
Seeds are paired: the same seed means the same partition, first labels and initial model for every strategy.
docs/STATISTICS.md explains the numbers, what is odd about the paper's, and special cases
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Definition 1).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

PAPER_THRESHOLD = 2.776  # 5%, two-sided, for 4 degrees of freedom; the paper's 4 seeds have 3: 3.182
THRESHOLDS = {"exact": None, "paper": PAPER_THRESHOLD}  # by name; None follows the number of seeds
SIGNIFICANCE = 0.05
AVERAGE = "average"  # name of the penalty matrix's last row

# Percentage points. Rounding changes a difference of accuracies by about 1e-14. One test image changes the
# mean of five FL rounds by 0.0001 or more, even if there are 200,000 images.
ROUNDING = 1e-9

# Why there is no test: too few seeds in common, or the same difference in all of them.
NOTHING_IN_COMMON, ONE_SEED, EQUAL = "nothing in common", "one seed", "equal differences"
REASONS = {0: NOTHING_IN_COMMON, 1: ONE_SEED}  # by the number of seeds

Accuracies = NDArray[np.float64]


# --------------------------------------------------------------------------------- the paper's numbers


def t_score(differences: ArrayLike) -> float:
    """Compute √n·μ/σ of paired differences a_i - a_j, with σ over n - 1.

    That is Definition 1 with the square that its formula of σ lacks. Where all differences are equal, the
    score is 0 if they are zero, and otherwise +∞ or -∞.
    """
    d = np.asarray(differences, dtype=np.float64)
    n = d.size
    if n < 2:
        raise ValueError(f"a t-score needs at least two paired seeds, not {n}")
    mu, sigma = float(d.mean()), float(d.std(ddof=1))
    if sigma < ROUNDING:
        return 0.0 if abs(mu) < ROUNDING else float(np.copysign(np.inf, mu))
    return float(np.sqrt(n)) * mu / sigma


def exact_threshold(n: int) -> float:
    """Return what |t| of n paired seeds exceeds by chance in 5% of cases: 12.71, 4.30, 3.18 for 2, 3, 4."""
    return float(scipy.special.stdtrit(n - 1, 1 - SIGNIFICANCE / 2))


def winning(threshold: float | None = None) -> str:
    """Say what it means to win, for whoever looks at a penalty matrix."""
    limit = "the exact two-sided 5% value for its seeds" if threshold is None else f"{threshold:g}"
    return f"A strategy wins over another in an AL round if its paired t-score over it is above {limit}."


class WinningRate(NamedTuple):
    rate: float  # 0 if there was no test
    rounds: int  # R: the AL rounds in which the two have at least two seeds in common
    reason: str  # why there is no such round; empty if there is one


def winning_rate(curves: pd.DataFrame, i: str, j: str, threshold: float | None = None) -> WinningRate:
    """Compute win^ij, the share of the R AL rounds in which strategy i beats j: t_r^ij > threshold.

    Without a threshold it is the exact one for each round's number of seeds; the paper has PAPER_THRESHOLD.

    As in the paper, R includes the first round, in which all strategies have the same random labels and
    nobody can win. The rate is therefore at most (R - 1)/R.
    """
    for name in (i, j):
        if name not in set(curves["strategy"]):
            raise ValueError(f"no learning curve of a strategy {name!r}")
    settings = list(_settings(curves))
    if len(settings) > 1:
        raise ValueError(f"a winning rate is of one setting, not of {len(settings)}: see winning_rates")
    _, _, accuracy = settings[0]
    return _winning_rate(accuracy[i] - accuracy[j], threshold)


def winning_rates(curves: pd.DataFrame, threshold: float | None = None) -> pd.DataFrame:
    """Make a row for each setting and ordered pair of strategies: `setting, i, j, rate, rounds, reason`."""
    rows = [
        (setting, i, j, *_winning_rate(accuracy[i] - accuracy[j], threshold))
        for setting, _, accuracy in _settings(curves)
        for i, j in permutations(accuracy, 2)
    ]
    return _drop_setting(curves, pd.DataFrame(rows, columns=["setting", "i", "j", *WinningRate._fields]))


def penalty_matrix(curves: pd.DataFrame, threshold: float | None = None) -> pd.DataFrame:
    """Compute P_ij = Σ over settings of win^ij: how often the row's strategy beats the column's.

    The last row is the mean of each column over the other strategies: how often they beat this one, so lower
    is better. A pair without a test adds 0; `winning_rates` says which pairs these are, and why.
    """
    strategies = sorted(curves["strategy"].unique())
    sums = winning_rates(curves, threshold).pivot_table("rate", "i", "j", aggfunc="sum")
    P = sums.reindex(index=strategies, columns=strategies).fillna(0.0).rename_axis(index=None, columns=None)
    average = P.sum() / max(len(strategies) - 1, 1)
    return pd.concat([P, average.to_frame(AVERAGE).T])


# ------------------------------------------------------------------------------------ sound statistics


def paired_tests(curves: pd.DataFrame) -> pd.DataFrame:
    """Make exact paired t-tests: a row for each setting, AL round and pair of strategies.

    Columns: `n` seeds in common, `mean_difference` (i minus j, percentage points), `t`, two-sided `p` with
    n - 1 degrees of freedom, `p_holm` (corrected for all pairs tested in that round and setting),
    `significant` (p_holm below 5%), and the `reason` why there is no test. Without a test p and p_holm are
    NaN; with fewer than two seeds t is, too.
    """
    rows = []
    for setting, al_rounds, accuracy in _settings(curves):
        for i, j in combinations(accuracy, 2):
            for al_round, d in zip(al_rounds, _known(accuracy[i] - accuracy[j]), strict=True):
                n = len(d)
                mean, t = d.mean() if n > 0 else np.nan, t_score(d) if n > 1 else np.nan
                rows.append((setting, al_round, i, j, n, mean, t))
    columns = ["setting", "al_round", "i", "j", "n", "mean_difference", "t"]
    tests = pd.DataFrame(rows, columns=columns).sort_values(columns[:4], ignore_index=True)
    # As scipy.stats.ttest_rel, except where all differences are equal: with few seeds that happens by chance,
    # because accuracies are counts of test images.
    size = tests["t"].abs().astype(float)
    equal = np.isinf(size)
    # Student's distribution from scipy.special: importing scipy.stats takes most of a second.
    tests["p"] = 2 * scipy.special.stdtr(tests["n"].astype(float) - 1, -size.mask(equal))
    tests["p_holm"] = tests.groupby(["setting", "al_round"])["p"].transform(holm).astype(float)
    tests["significant"] = tests["p_holm"] < SIGNIFICANCE
    tests["reason"] = np.where(equal, EQUAL, [REASONS.get(n, "") for n in tests["n"]])
    return _drop_setting(curves, tests)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Correct p-values by Holm's method: multiply the k-th smallest of m by m - k + 1, without ever falling.

    NaN means not tested: it stays NaN and does not count in m.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted to the end
    m = len(order)
    corrected = np.full_like(p, np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * (m - np.arange(m))), 1)
    return corrected


def confidence_band(
    curves: pd.DataFrame, level: float = 0.95, *, rng: np.random.Generator, resamples: int = 10_000
) -> pd.DataFrame:
    """Compute the mean accuracy over seeds and its percentile bootstrap interval.

    There is a row for each setting, strategy and AL round, with columns `n, mean, low, high, reason`. One
    seed has no spread: there low = high = mean, and the reason says so.
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not at {level}")
    tail = (1 - level) / 2
    rows = []
    for setting, al_rounds, accuracy in _settings(curves):
        for strategy, table in accuracy.items():
            known = [(r, len(a), a) for r, a in zip(al_rounds, _known(table), strict=True) if len(a)]
            means = [a[rng.integers(n, size=(resamples, n))].mean(axis=1) for _, n, a in known]
            if not known:
                continue
            intervals = np.quantile(means, [tail, 1 - tail], axis=1).T
            for (al_round, n, a), interval in zip(known, intervals, strict=True):
                rows.append((setting, strategy, al_round, n, a.mean(), *interval, REASONS.get(n, "")))
    columns = ["setting", "strategy", "al_round", "n", "mean", "low", "high", "reason"]
    return _drop_setting(curves, pd.DataFrame(rows, columns=columns))


def aubc(curves: pd.DataFrame) -> pd.DataFrame:
    """Compute the area under the budget curve of each run: `rounds` that it spans, and `aubc` in percent.

    It is the area of the trapezoids of accuracy over labelled, divided by the span of labelled: the mean
    accuracy on the way. Without a span, as after one round, it is the plain mean.
    """
    rows = []
    keys = ["setting", "strategy", "seed"]
    for run, curve in _check(curves).sort_values("al_round").groupby(keys):
        labelled, accuracy = curve["labelled"].to_numpy(float), curve["accuracy"].to_numpy(float)
        span = labelled[-1] - labelled[0]
        area = scipy.integrate.trapezoid(accuracy, labelled) / span if span > 0 else accuracy.mean()
        rows.append((*run, len(curve), area))
    return _drop_setting(curves, pd.DataFrame(rows, columns=[*keys, "rounds", "aubc"]))


# ---------------------------------------------------------------------------------------------- curves


def _check(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the curves with a column `setting`; ValueError unless each run has one accuracy per AL round."""
    table = curves if "setting" in curves else curves.assign(setting="")
    run = ["setting", "strategy", "seed", "al_round"]
    if missing := [column for column in (*run, "labelled", "accuracy") if column not in table]:
        raise ValueError(f"learning curves without {', '.join(missing)}")
    if table[[*run, "labelled", "accuracy"]].isna().any(axis=None):
        raise ValueError("learning curves with missing values")
    if table.duplicated(run).any():
        raise ValueError("learning curves with two rows for one setting, strategy, seed and AL round")
    return table


def _drop_setting(curves: pd.DataFrame, result: pd.DataFrame) -> pd.DataFrame:
    """Drop the column `setting` from the result if the curves do not have it."""
    return result if "setting" in curves else result.drop(columns="setting")


def _settings(curves: pd.DataFrame) -> Iterator[tuple[Hashable, list[int], dict[str, Accuracies]]]:
    """Yield each setting, its AL rounds, and the accuracies of each strategy by AL round and seed.

    An accuracy that is missing is NaN. Seeds are in the same order for all strategies, so that the difference
    of two arrays is paired.
    """
    table = _check(curves)
    strategies, seeds = sorted(table["strategy"].unique()), sorted(table["seed"].unique())
    wide = table.pivot_table(
        index=["setting", "al_round"], columns=["strategy", "seed"], values="accuracy"
    ).reindex(columns=pd.MultiIndex.from_product([strategies, seeds]))
    for setting, part in wide.groupby(level="setting"):
        al_rounds = part.index.get_level_values("al_round").tolist()
        yield setting, al_rounds, {name: part[name].to_numpy(np.float64) for name in strategies}


def _known(accuracies: Accuracies) -> list[Accuracies]:
    """List the numbers of each AL round, without the seeds that are missing."""
    return [row[~np.isnan(row)] for row in accuracies]


def _winning_rate(differences: Accuracies, threshold: float | None) -> WinningRate:
    known = _known(differences)
    wins = [
        t_score(d) > (exact_threshold(len(d)) if threshold is None else threshold)
        for d in known
        if len(d) > 1
    ]
    if not wins:
        return WinningRate(0.0, 0, REASONS[max(map(len, known))])
    return WinningRate(sum(wins) / len(wins), len(wins), "")
