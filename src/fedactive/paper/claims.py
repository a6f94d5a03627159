"""The paper's claims, one by one, and what our runs say to each.

A claim is that a number is higher than another, or lower, at a percent labelled. So it is about a difference,
which is taken seed by seed, as seeds share clients, first labels and initial weights, and has the sign that
makes it positive where the claim is true. Kim et al., Re-thinking Federated Active Learning based on
Inter-class Diversity, CVPR 2023: Observations 2 and 3, and the text about the accuracy table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from fedactive.analysis.significance import t_score
from fedactive.paper.archive import Archive
from fedactive.paper.tables import Cell, by_seed, cells, only, up_to
from fedactive.record.stored import StoredRun

HELD, NOT_HELD, NOT_TESTABLE = "held", "not held", "not testable"
WRONG = 0.05  # the chance that a verdict is wrong

# Which model the paper finds the better selector, "in general".
BETTER = {"cifar10": "local", "svhn": "global", "pathmnist": "local", "dermamnist": "global"}
OTHER = {"local": "global", "global": "local"}
MODEL = {"local": "the local-only", "global": "the global"}
BASELINES = ("entropy", "coreset", "badge", "gcnal", "alfamix")  # those for which either model can choose

# The observations: the claim, what is measured, which selector has more of it, and for which (rho, alpha) the
# paper says so. (1, inf) is its case (b).
HETEROGENEOUS, CASE_B = [(1.0, 0.1), (5.0, 0.1), (10.0, 0.1), (20.0, 0.1)], (1.0, np.inf)
IMBALANCED = [(20.0, 0.1), (20.0, 1.0), (20.0, np.inf)]
SECOND, THIRD = "Observation 2: the local-only model", "Observation 3: the global model"
OBSERVATIONS = [
    (f"{SECOND} balances local labels", "local_emd", "global", [*HETEROGENEOUS, CASE_B]),
    (f"{SECOND} chooses better", "accuracy", "local", HETEROGENEOUS[:1]),
    (f"{THIRD} balances all labels", "global_emd", "local", IMBALANCED),
    (f"{THIRD} chooses better", "accuracy", "global", IMBALANCED[-1:]),
]


RULE = """\
Every number below is a difference, with the sign that makes it positive where the claim is true: ours as
mean ± standard error over paired seeds (how many), then the paper's where it printed one. A claim is *held*
where our mean is more than t standard errors above zero and *not held* where it is as far below, t being the
95% quantile of Student's distribution: {quantiles} seeds.
In between, or with one seed, it is *not testable* with these seeds; a dash means that there are no runs to
compare. By chance one verdict in twenty may be wrong.

- *LoGo is best or second*: LoGo less the second best of the other eleven rows. That row is picked by its
  result, which makes *not held* a little too easy.
- *LoGo follows the better selector*: LoGo less the middle between entropy by the global and by the
  local-only model. Above the middle it is nearer to the better of them, whichever that is.
- *Chooses better*, on the four datasets: strategies by that model less the same by the other. The paper says
  so "in general", which is the mean of the five; of single strategies its own numbers may say the opposite.
- *Balances*: the distance (EMD) of the labels from equal classes is lower than with the other model, on
  average over the clients (local labels) or of all clients' labels together.
"""


def quantile(seeds: int) -> float:
    """So many standard errors a mean difference must be away from zero to decide."""
    return float(scipy.stats.t.ppf(1 - WRONG, seeds - 1))


def rule() -> str:
    """How verdicts are reached, for readers of a document."""
    quantiles = ", ".join(f"{quantile(n):.2f} for {n}" for n in (2, 3, 4))
    return RULE.format(quantiles=quantiles)


class Claim(NamedTuple):
    claim: str
    where: str
    labelled_percent: float
    measure: str
    paper: float  # the difference in its table
    ours: pd.Series  # our differences by seed, of the seeds in common


def claims(
    archive: Archive,
    *,
    until: float | None = None,
    datasets: Sequence[str] | None = None,
    **overrides: Any,
) -> pd.DataFrame:
    """One row per claim, place and percent: the fields of Claim, but `ours` as a mean difference with its
    standard `error` and number of `seeds`, and the `verdict`. `overrides` are settings of Experiment.
    """
    accuracy = up_to(until, only(cells("accuracy", **overrides), dataset=datasets))
    emd = up_to(until, cells("emd", **overrides)) if datasets is None or "cifar10" in datasets else []
    found = [*accuracy_claims(accuracy, archive), *observations(emd, archive)]
    order = list(dict.fromkeys(claim.claim for claim in found))
    found.sort(key=lambda claim: order.index(claim.claim))  # claim by claim, not dataset by dataset
    return pd.DataFrame([judged(claim) for claim in found])


def judged(claim: Claim) -> dict[str, Any]:
    n, verdict, error = len(claim.ours), NOT_TESTABLE, np.nan
    if n > 1:
        error = float(claim.ours.std(ddof=1)) / n**0.5
        t = t_score(claim.ours)
        verdict = HELD if t > quantile(n) else NOT_HELD if t < -quantile(n) else NOT_TESTABLE
    return claim._asdict() | {"ours": claim.ours.mean(), "error": error, "seeds": n, "verdict": verdict}


# ------------------------------------------------------------------------------------------ the claims


def accuracy_claims(table: Iterable[Cell], archive: Archive) -> Iterator[Claim]:
    """LoGo among the twelve rows of the accuracy table, and whose model should choose, by dataset."""
    columns: dict[tuple[str, float], dict[tuple[str, str], Cell]] = {}
    for cell in table:
        row = cell.columns["strategy"], cell.columns["selector"]
        columns.setdefault((cell.columns["dataset"], cell.labelled), {})[row] = cell
    for (dataset, percent), rows in columns.items():
        place = (dataset, percent, "accuracy")
        logo = rows["logo", "both"]
        others = [cell for cell in rows.values() if cell is not logo]
        yield Claim("LoGo is best or second", *place, *above_all_but_one(logo, others, archive))
        middle = [(-0.5, rows["entropy", selector]) for selector in OTHER]
        yield Claim("LoGo follows the better selector", *place, *difference([(1, logo), *middle], archive))
        better, worse = BETTER[dataset], OTHER[BETTER[dataset]]
        text = f"{MODEL[better]} model chooses better"
        five = [(sign / 5, rows[s, m]) for s in BASELINES for sign, m in ((1, better), (-1, worse))]
        yield Claim(f"{text}, mean of the five", *place, *difference(five, archive))
        for strategy in BASELINES:
            two = [(1, rows[strategy, better]), (-1, rows[strategy, worse])]
            yield Claim(f"{text}, {strategy}", *place, *difference(two, archive))


def observations(table: Iterable[Cell], archive: Archive) -> Iterator[Claim]:
    """Entropy on CIFAR-10: which model's labels are balanced, and which model's lead to more accuracy."""
    found: dict[tuple[float, float, float], dict[tuple[str, str], Cell]] = {}
    for cell in table:
        e, measure = cell.experiment, cell.columns["measure"]
        if cell.al_round > 1:  # the first labels are random, and the same
            rows = found.setdefault((e.rho, e.alpha, cell.labelled), {})
            rows[e.selector, measure] = cell
            rows[e.selector, "accuracy"] = replace(cell, measure=StoredRun.accuracy_in, paper=np.nan)
    for text, measure, more, where in OBSERVATIONS:
        for (rho, alpha, percent), rows in found.items():
            if (rho, alpha) in where:
                two = [(1, rows[more, measure]), (-1, rows[OTHER[more], measure])]
                place = (f"rho {rho:g}, alpha {alpha:g}", percent, measure)
                yield Claim(text, *place, *difference(two, archive))


# ----------------------------------------------------------------------------------------- differences


def difference(parts: Sequence[tuple[float, Cell]], archive: Archive) -> tuple[float, pd.Series]:
    """A weighted sum of cells: in the paper's numbers, and in ours for each seed that all of them have."""
    ours = pd.concat([weight * by_seed(cell, archive) for weight, cell in parts], axis=1, join="inner")
    return sum(weight * cell.paper for weight, cell in parts), ours.sum(axis=1)


def above_all_but_one(cell: Cell, others: Sequence[Cell], archive: Archive) -> tuple[float, pd.Series]:
    """Its distance from the second best of the others: in the paper's numbers, and in ours by seed."""
    ours = pd.concat([by_seed(c, archive) for c in (cell, *others)], axis=1, join="inner", ignore_index=True)
    rival = ours.iloc[:, 1:].mean().sort_values(ascending=False, kind="stable").index[1]
    return cell.paper - sorted(c.paper for c in others)[-2], ours[0] - ours[rival]
