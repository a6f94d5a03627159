"""Which strategy is really better: the paper's winning rates, and tests that hold what they promise.

`curves` is everywhere the tidy table of learning curves, `strategy, seed, al_round, labelled, accuracy` with
accuracy in percent, and `setting` where several are compared; answers have that column if the curves do.
Seeds are paired: the same seed means the same partition, first labels and initial model for every strategy.
docs/STATISTICS.md explains the numbers, the paper's quirks and the degenerate cases
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
SIGNIFICANCE = 0.05
AVERAGE = "average"  # name of the penalty matrix's last row

# Percentage points. Differences of equal accuracies are equal up to rounding (1e-14), not exactly; one test
# image more or less moves the mean of five FL rounds by 0.0001 even if there are 200,000 of them.
ROUNDING = 1e-9

# Why there is no test: by the number of seeds in common, or because these all say the same.
NOTHING_IN_COMMON, ONE_SEED = "nothing in common", "one seed"
EQUAL = "equal differences"
REASONS = {0: NOTHING_IN_COMMON, 1: ONE_SEED}


# ------------------------------------------------------------------------------------------- the paper's


def t_score(differences: ArrayLike) -> float:
    """√n·μ/σ of paired differences a_i - a_j, with σ over n - 1 (Definition 1, its lost square put back).

    Differences that do not vary give 0 if they are all zero, and otherwise +∞ or -∞.
    """
    d = np.asarray(differences, dtype=np.float64)
    n = d.size
    if n < 2:
        raise ValueError(f"a t-score needs at least two paired seeds, not {n}")
    mu, sigma = float(d.mean()), float(d.std(ddof=1))
    if sigma < ROUNDING:
        return 0.0 if abs(mu) < ROUNDING else float(np.copysign(np.inf, mu))
    return float(np.sqrt(n)) * mu / sigma


class WinningRate(NamedTuple):
    rate: float  # 0 where nothing could be tested: without a test nobody wins
    rounds: int  # R: the AL rounds in which the two have at least two seeds in common
    reason: str  # why that is none at all, or ""


def winning_rate(curves: pd.DataFrame, i: str, j: str, threshold: float = PAPER_THRESHOLD) -> WinningRate:
    """win^ij: the share of the R AL rounds in which strategy i beats j, that is t_r^ij > threshold.

    As in the paper, R counts the first round, in which all strategies have the same random labels and nobody
    can win; the rate is therefore at most (R - 1)/R.
    """
    for name in (i, j):
        if name not in set(curves["strategy"]):
            raise ValueError(f"no learning curve of a strategy {name!r}")
    settings = list(_settings(curves))
    if len(settings) > 1:
        raise ValueError(f"a winning rate is of one setting, not of {len(settings)}: see winning_rates")
    return _winning_rate(_paired_differences(settings[0][1], i, j), threshold)


def winning_rates(curves: pd.DataFrame, threshold: float = PAPER_THRESHOLD) -> pd.DataFrame:
    """One row per setting and ordered pair of strategies: `setting, i, j, rate, rounds, reason`."""
    rows = [
        (setting, i, j, *_winning_rate(_paired_differences(accuracy, i, j), threshold))
        for setting, accuracy in _settings(curves)
        for i, j in permutations(accuracy, 2)
    ]
    return _like(curves, pd.DataFrame(rows, columns=["setting", "i", "j", *WinningRate._fields]))


def penalty_matrix(curves: pd.DataFrame, threshold: float = PAPER_THRESHOLD) -> pd.DataFrame:
    """P_ij = Σ over settings of win^ij: how often the row's strategy beats the column's.

    The last row is how often a strategy is beaten on average by each of the others (lower is better); itself
    does not count as one of them. A pair without a test adds 0; `winning_rates` says which and why.
    """
    strategies = sorted(curves["strategy"].unique())
    place = {name: k for k, name in enumerate(strategies)}
    sums = np.zeros((len(strategies), len(strategies)))
    rates = winning_rates(curves, threshold)
    for i, j, rate in zip(rates["i"], rates["j"], rates["rate"], strict=True):
        sums[place[i], place[j]] += rate
    P = pd.DataFrame(sums, index=strategies, columns=strategies)
    average = P.sum() / max(len(strategies) - 1, 1)
    return pd.concat([P, average.to_frame(AVERAGE).T])


# ------------------------------------------------------------------------------------ the sound versions


def paired_tests(curves: pd.DataFrame) -> pd.DataFrame:
    """Exact paired t-tests: one row per setting, AL round and pair of strategies.

    `n` seeds in common, `mean_difference` (i minus j, percentage points), `t`, two-sided `p` with n - 1
    degrees of freedom, `p_holm` corrected for all pairs tested in that round and setting, `significant`
    (p_holm below 5%), and the `reason` if there is no test; p and p_holm are NaN then, and t without seeds.
    """
    rows = []
    for setting, accuracy in _settings(curves):
        for i, j in combinations(accuracy, 2):
            for al_round, d in _paired_differences(accuracy, i, j).items():
                n = len(d)
                mean, t = d.mean() if n > 0 else np.nan, t_score(d) if n > 1 else np.nan
                rows.append((setting, al_round, i, j, n, mean, t))
    columns = ["setting", "al_round", "i", "j", "n", "mean_difference", "t"]
    tests = pd.DataFrame(rows, columns=columns).sort_values(columns[:4], ignore_index=True)
    # As scipy.stats.ttest_rel, but for differences that do not vary. Normal ones always do;
    # accuracies are counts of test images, whose differences agree by chance where seeds are few.
    size = tests["t"].abs().astype(float)
    equal = np.isinf(size)
    tests["p"] = 2 * scipy.stats.t.sf(size.mask(equal), df=tests["n"].astype(float) - 1)
    tests["p_holm"] = tests.groupby(["setting", "al_round"])["p"].transform(holm).astype(float)
    tests["significant"] = tests["p_holm"] < SIGNIFICANCE
    tests["reason"] = np.where(equal, EQUAL, [REASONS.get(n, "") for n in tests["n"]])
    return _like(curves, tests)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down correction: the k-th smallest of m is multiplied by m - k + 1, never falling again.

    NaN means not tested: it stays, and does not count in m.
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
    """Mean accuracy over seeds with its percentile bootstrap interval, per setting, strategy and AL round.

    Columns `n, mean, low, high, reason`; one seed shows no spread, so there low = high = mean, and the reason
    says so.
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not at {level}")
    tail = (1 - level) / 2
    rows = []
    for setting, accuracy in _settings(curves):
        for strategy, table in accuracy.items():
            for al_round, a in _present(table).items():
                n = len(a)
                if n > 0:
                    means = a[rng.integers(n, size=(resamples, n))].mean(axis=1)
                    low, high = np.quantile(means, [tail, 1 - tail])
                    rows.append((setting, strategy, al_round, n, a.mean(), low, high, REASONS.get(n, "")))
    columns = ["setting", "strategy", "al_round", "n", "mean", "low", "high", "reason"]
    return _like(curves, pd.DataFrame(rows, columns=columns))


def aubc(curves: pd.DataFrame) -> pd.DataFrame:
    """Area under the budget curve per setting, strategy and seed: `rounds` it spans, and `aubc` in percent.

    The trapezoids of accuracy over labelled, divided by the span of labelled: the mean accuracy on the way.
    Without a span, as after one round, it is the plain mean.
    """
    rows = []
    keys = ["setting", "strategy", "seed"]
    for run, curve in _checked(curves).sort_values("al_round").groupby(keys):
        labelled, accuracy = curve["labelled"].to_numpy(float), curve["accuracy"].to_numpy(float)
        span = labelled[-1] - labelled[0]
        area = scipy.integrate.trapezoid(accuracy, labelled) / span if span > 0 else accuracy.mean()
        rows.append((*run, len(curve), area))
    return _like(curves, pd.DataFrame(rows, columns=[*keys, "rounds", "aubc"]))


# ----------------------------------------------------------------------------------------------- pairing


def _checked(curves: pd.DataFrame) -> pd.DataFrame:
    """The curves with a column `setting`, after checking that every run has one accuracy per AL round."""
    table = curves if "setting" in curves else curves.assign(setting="")
    run = ["setting", "strategy", "seed", "al_round"]
    if missing := [column for column in (*run, "labelled", "accuracy") if column not in table]:
        raise ValueError(f"learning curves without {', '.join(missing)}")
    if table[[*run, "labelled", "accuracy"]].isna().any(axis=None):
        raise ValueError("learning curves with missing values")
    if table.duplicated(run).any():
        raise ValueError("learning curves with two rows for one setting, strategy, seed and AL round")
    return table


def _settings(curves: pd.DataFrame) -> Iterator[tuple[Hashable, dict[str, pd.DataFrame]]]:
    """Every setting with the accuracies of every strategy, AL rounds × seeds, NaN where there is none."""
    table = _checked(curves)
    strategies, seeds = sorted(table["strategy"].unique()), sorted(table["seed"].unique())
    wide = table.pivot_table(
        index=["setting", "al_round"], columns=["strategy", "seed"], values="accuracy"
    ).reindex(columns=pd.MultiIndex.from_product([strategies, seeds]))
    for setting, part in wide.groupby(level="setting"):
        accuracy = part.droplevel("setting")
        yield setting, {name: accuracy[name] for name in strategies}


def _present(table: pd.DataFrame) -> dict[Hashable, NDArray[np.float64]]:
    """The numbers of every AL round, without the seeds that are not there."""
    return _by_round(table.index, table.to_numpy(np.float64))


def _by_round(al_rounds: pd.Index, values: NDArray[np.float64]) -> dict[Hashable, NDArray[np.float64]]:
    return {r: row[~np.isnan(row)] for r, row in zip(al_rounds, values, strict=True)}


def _paired_differences(
    accuracy: dict[str, pd.DataFrame], i: str, j: str
) -> dict[Hashable, NDArray[np.float64]]:
    """a_r^i - a_r^j by AL round, of the seeds that both strategies have in it."""
    # As arrays: all strategies have the same rounds and seeds, which pandas would check each time.
    return _by_round(accuracy[i].index, accuracy[i].to_numpy(np.float64) - accuracy[j].to_numpy(np.float64))


def _winning_rate(differences: dict[Hashable, NDArray[np.float64]], threshold: float) -> WinningRate:
    wins = [t_score(d) > threshold for d in differences.values() if len(d) > 1]
    if not wins:
        return WinningRate(0.0, 0, REASONS[max(len(d) for d in differences.values())])
    return WinningRate(sum(wins) / len(wins), len(wins), "")


def _like(curves: pd.DataFrame, answer: pd.DataFrame) -> pd.DataFrame:
    return answer if "setting" in curves else answer.drop(columns="setting")
