"""The paper's claims, one by one, and what our runs say about each.

A claim says that one number is higher or lower than another at a percent labelled. We subtract the two seed
by seed, because runs of one seed share clients, first labels and initial weights. The difference is positive
where the claim is true. The claims are Observations 2 and 3 and the text about the accuracy table in Kim et
al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from fedactive.analysis.significance import t_score
from fedactive.paper.tables import Cell, by_seed, cells
from fedactive.record.archive import Archive
from fedactive.record.stored import StoredRun

HELD, NOT_HELD, NOT_TESTABLE = "held", "not held", "not testable"
ERROR_RATE = 0.05  # the chance that a verdict is wrong

# Which model the paper finds the better selector, "in general".
BETTER_SELECTOR = {"cifar10": "local", "svhn": "global", "pathmnist": "local", "dermamnist": "global"}
OTHER_SELECTOR = {"local": "global", "global": "local"}
MODEL_NAMES = {"local": "the local-only", "global": "the global"}
BASELINES = ("entropy", "coreset", "badge", "gcnal", "alfamix")  # those for which either model can choose

# The observations: the claim, what is measured, which selector has more of it, and for which (rho, alpha) the
# paper says so. (1, inf) is its case (b).
HETEROGENEOUS = [(1.0, 0.1), (5.0, 0.1), (10.0, 0.1), (20.0, 0.1)]
IMBALANCED = [(20.0, 0.1), (20.0, 1.0), (20.0, np.inf)]
OBSERVATIONS = [
    (
        "Observation 2: the local-only model balances local labels",
        "local_emd",
        "global",
        [*HETEROGENEOUS, (1.0, np.inf)],
    ),
    ("Observation 2: the local-only model chooses better", "accuracy", "local", [(1.0, 0.1)]),
    ("Observation 3: the global model balances all labels", "global_emd", "local", IMBALANCED),
    ("Observation 3: the global model chooses better", "accuracy", "global", [(20.0, np.inf)]),
]

RULE = """\
Every number below is a difference, and it is positive where the claim is true. Ours is the mean ± standard
error over paired seeds, with their number in brackets. The paper's follows where it printed one.
A claim is *held* where our mean is more than t standard errors above zero, and *not held* where it is as far
below. t is the 95% quantile of Student's distribution: {quantiles} seeds.
In between, or with one seed, the claim is *not testable* with these seeds. A dash means that there are no
runs to compare. By chance one verdict in twenty may be wrong.

- *LoGo is best or second*: LoGo minus the second best of the other eleven rows. That row is picked by its
  result, which makes *not held* a little too easy.
- *LoGo follows the better selector*: LoGo minus the middle between entropy by the global and by the
  local-only model. Above the middle it is nearer to the better of them, whichever that is.
- *Chooses better*, on the four datasets: strategies by that model minus the same by the other. The paper says
  so "in general", which is the mean of the five. For single strategies its own numbers may say the opposite.
- *Balances*: the distance (EMD) of the labels from equal classes is lower than with the other model. It is
  the mean over clients (local labels), or that of all clients' labels together.
"""


def critical_t(seeds: int) -> float:
    """Return how many standard errors a mean difference must be away from zero to decide a claim."""
    return float(scipy.stats.t.ppf(1 - ERROR_RATE, seeds - 1))


def explain_rule() -> str:
    """Say how verdicts are reached, for readers of a document."""
    return RULE.format(quantiles=", ".join(f"{critical_t(n):.2f} for {n}" for n in (2, 3, 4)))


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
    """Return one row per claim, place and percent labelled; `overrides` are settings of Experiment.

    The columns are the fields of Claim, but `ours` is the mean difference; then its standard `error`, the
    number of `seeds`, and the `verdict`.
    """
    accuracy = cells("accuracy", until=until, datasets=datasets, **overrides)
    emd = cells("emd", until=until, **overrides) if datasets is None or "cifar10" in datasets else []
    found = [*accuracy_claims(accuracy, archive), *observations(emd, archive)]
    order = list(dict.fromkeys(claim.claim for claim in found))
    found.sort(key=lambda claim: order.index(claim.claim))  # claim by claim, not dataset by dataset
    return pd.DataFrame([judge(claim) for claim in found])


def judge(claim: Claim) -> dict[str, Any]:
    n, verdict = len(claim.ours), NOT_TESTABLE
    if n > 1:
        t = t_score(claim.ours)
        verdict = HELD if t > critical_t(n) else NOT_HELD if t < -critical_t(n) else NOT_TESTABLE
    ours = {"ours": claim.ours.mean(), "error": claim.ours.sem(), "seeds": n}
    return claim._asdict() | ours | {"verdict": verdict}


# --- the claims


def accuracy_claims(table: Iterable[Cell], archive: Archive) -> Iterator[Claim]:
    """Compare LoGo with the other rows of the accuracy table, and the two models as selectors, by dataset."""
    columns: dict[tuple[str, float], dict[tuple[str, str], Cell]] = {}
    for cell in table:
        row = cell.columns["strategy"], cell.columns["selector"]
        columns.setdefault((cell.columns["dataset"], cell.labelled), {})[row] = cell
    for (dataset, percent), rows in columns.items():
        place = (dataset, percent, "accuracy")
        logo = rows["logo", "both"]
        others = [cell for cell in rows.values() if cell is not logo]
        yield Claim("LoGo is best or second", *place, *lead_over_second_best(logo, others, archive))
        middle = [(-0.5, rows["entropy", selector]) for selector in OTHER_SELECTOR]
        yield Claim("LoGo follows the better selector", *place, *difference([(1, logo), *middle], archive))
        better = BETTER_SELECTOR[dataset]
        worse, text = OTHER_SELECTOR[better], f"{MODEL_NAMES[better]} model chooses better"
        five = [(sign / 5, rows[s, m]) for s in BASELINES for sign, m in ((1, better), (-1, worse))]
        yield Claim(f"{text}, mean of the five", *place, *difference(five, archive))
        for strategy in BASELINES:
            two = [(1, rows[strategy, better]), (-1, rows[strategy, worse])]
            yield Claim(f"{text}, {strategy}", *place, *difference(two, archive))


def observations(table: Iterable[Cell], archive: Archive) -> Iterator[Claim]:
    """Compare the two models on the EMD table's runs: whose labels are balanced, whose give more accuracy."""
    found: dict[tuple[float, float, float], dict[tuple[str, str], Cell]] = {}
    for cell in table:
        e = cell.experiment
        if cell.al_round > 1:  # the first labels are random, and the same for both
            rows = found.setdefault((e.rho, e.alpha, cell.labelled), {})
            rows[e.selector, cell.columns["measure"]] = cell
            rows[e.selector, "accuracy"] = replace(cell, measure=StoredRun.accuracy_in, paper=np.nan)
    for text, measure, more, where in OBSERVATIONS:
        for (rho, alpha, percent), rows in found.items():
            if (rho, alpha) in where:
                two = [(1, rows[more, measure]), (-1, rows[OTHER_SELECTOR[more], measure])]
                place = (f"rho {rho:g}, alpha {alpha:g}", percent, measure)
                yield Claim(text, *place, *difference(two, archive))


# --- differences: in the paper's numbers, and in ours for each seed that all cells have


def difference(parts: Sequence[tuple[float, Cell]], archive: Archive) -> tuple[float, pd.Series]:
    """Return a weighted sum of cells."""
    ours = pd.concat([weight * by_seed(cell, archive) for weight, cell in parts], axis=1, join="inner")
    return sum(weight * cell.paper for weight, cell in parts), ours.sum(axis=1)


def lead_over_second_best(cell: Cell, others: Sequence[Cell], archive: Archive) -> tuple[float, pd.Series]:
    """Return by how much a cell is above the second best of the others."""
    ours = pd.concat([by_seed(c, archive) for c in (cell, *others)], axis=1, join="inner", ignore_index=True)
    rival = ours.iloc[:, 1:].mean().sort_values(ascending=False, kind="stable").index[1]
    return cell.paper - sorted(c.paper for c in others)[-2], ours[0] - ours[rival]
