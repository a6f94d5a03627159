"""The paper's claims, and what our runs say about each, by the rule in docs/STATISTICS.md.

A claim says that a weighted sum of rows is positive, on average over the percentages of its table. The claims
are Observations 2 and 3 and the text about the accuracy table in Kim et al., Re-thinking Federated Active
Learning based on Inter-class Diversity, CVPR 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fedactive.analysis.verdicts import (
    Sides,
    best_or_second_flips,
    best_or_second_test,
    judge,
    sign_flip_test,
    standard_error,
    sum_test,
)
from fedactive.paper.tables import Cell, by_seed, cells
from fedactive.record.archive import Archive
from fedactive.record.stored import StoredRun

KNOWN_SEEDS, NEW_SEEDS = range(1, 5), range(5, 17)  # before and after the rule was written
RULE_COMMIT = "32f6d77"  # the last that changed the rule, before the first run with a new seed

Key = tuple[str, str]  # names a row: strategy and selector
LOGO: Key = ("logo", "both")
NO_TEST = Sides(np.nan, np.nan)

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


@dataclass(frozen=True)
class Comparable:
    """The rows that are compared in one place: ours, and the paper's."""

    where: str
    measure: str
    ours: dict[float, pd.DataFrame]  # by percent labelled: a row per seed, a column per row that was run
    paper: dict[float, pd.Series]  # by percent labelled: all rows

    @cached_property
    def mean(self) -> pd.DataFrame:
        """Our numbers by seed, on average over the percentages."""
        return pd.concat(self.ours).groupby(level=1).mean() if self.ours else pd.DataFrame()

    @cached_property
    def printed(self) -> pd.Series:
        """The paper's numbers, on average over the same percentages."""
        return pd.DataFrame([self.paper[percent] for percent in self.ours or self.paper]).mean()


@dataclass(frozen=True)
class Claim:
    claim: str
    block: Comparable
    weights: Mapping[Key, float] | None  # None: LoGo is best or second, which is no sum

    @cached_property
    def ours(self) -> pd.DataFrame:
        """Our numbers by seed, or none if a row is lacking that the claim names."""
        mean = self.block.mean
        named = self.block.printed.index if self.weights is None else self.weights
        return mean if set(named) <= set(mean) else mean.head(0)

    def difference(self, means: pd.Series) -> float:
        """Return the sum of row means; for best or second LoGo's lead over the second best other row."""
        if self.weights is None:
            return float(means[LOGO] - means.drop(index=[LOGO]).nlargest(2).iloc[-1])
        return float(sum(weight * means[row] for row, weight in self.weights.items()))

    @cached_property
    def vector(self) -> np.ndarray:
        """The weights of our rows."""
        pair = {LOGO: 1.0, ("random", "none"): -1.0}  # for best or second: any pair has the same error
        weights = pd.Series(pair if self.weights is None else dict(self.weights))
        return weights.reindex(self.ours.columns, fill_value=0.0).to_numpy(float)

    def tests(self) -> tuple[Sides, Sides]:
        """Test with the pooled variance and by sign flips; nothing with fewer than two seeds."""
        ours = self.ours
        if len(ours) < 2:
            return NO_TEST, NO_TEST
        Y, rows = ours.to_numpy().T, list(ours)
        if self.weights is None:
            logo = rows.index(LOGO)
            return best_or_second_test(Y, logo), best_or_second_flips(Y, logo)
        return sum_test(Y, self.vector), sign_flip_test(self.vector @ Y)

    def numbers(self) -> dict[str, Any]:
        """Return the differences, ours and the paper's, on average and by percent labelled."""
        block, ours, n = self.block, self.ours, len(self.ours)
        parts = {
            percent: (
                self.difference(block.ours[percent].mean()) if n and percent in block.ours else np.nan,
                self.difference(printed),
            )
            for percent, printed in block.paper.items()
        }
        return {
            "claim": self.claim,
            "where": block.where,
            "measure": block.measure,
            "percents": tuple(block.ours) if n else (),
            "paper": self.difference(block.printed),
            "ours": self.difference(ours.mean()) if n else np.nan,
            "error": standard_error(ours.to_numpy().T, self.vector) if n > 1 else np.nan,
            "seeds": n,
            "parts": parts,
        }


def claims(
    archive: Archive,
    *,
    until: float | None = None,
    datasets: Sequence[str] | None = None,
    **overrides: Any,
) -> pd.DataFrame:
    """Return one row per claim and place; `overrides` are settings of Experiment.

    The columns are `claim, where, measure, percents` (those averaged over), `paper` and `ours` (differences),
    the standard `error`, the number of `seeds`, `parts` (ours and the paper's by percent), `verdict`, `p`
    (Holm's, over all claims of all datasets), `p_flip`, and `counted`: False where the paper's own numbers
    say the opposite. `datasets` leaves out the others only after all were judged.
    """
    found = [
        *accuracy_claims(cells("accuracy", until=until, **overrides), archive),
        *observations(cells("emd", until=until, **overrides), archive),
    ]
    order = list(dict.fromkeys(claim.claim for claim in found))
    found.sort(key=lambda claim: order.index(claim.claim))  # claim by claim, not dataset by dataset
    tests, flips = zip(*(claim.tests() for claim in found), strict=True)
    table = pd.DataFrame([claim.numbers() for claim in found])
    table[["verdict", "p"]] = judge(tests, flips, table["seeds"].tolist())
    table["p_flip"] = [float(np.fmin(flip.up, flip.down)) for flip in flips]
    table["counted"] = ~(table["paper"] < 0)
    places = table["where"].where(
        table["measure"].eq("accuracy") & ~table["where"].str.contains(" "), "cifar10"
    )
    return table if datasets is None else table[places.isin(datasets)].reset_index(drop=True)


# --- the claims


def accuracy_claims(table: Iterable[Cell], archive: Archive) -> Iterator[Claim]:
    """Compare LoGo with the other rows of the accuracy table, and the two models as selectors, by dataset."""
    places: dict[str, dict[float, dict[Key, Cell]]] = {}
    for cell in table:
        row = cell.columns["strategy"], cell.columns["selector"]
        places.setdefault(cell.columns["dataset"], {}).setdefault(cell.labelled, {})[row] = cell
    for dataset, by_percent in places.items():
        block = gather(dataset, "accuracy", by_percent, archive)
        yield Claim("LoGo is best or second", block, None)
        middle = {("entropy", selector): -0.5 for selector in OTHER_SELECTOR}
        yield Claim("LoGo follows the better selector", block, {LOGO: 1.0} | middle)
        better = BETTER_SELECTOR[dataset]
        worse, text = OTHER_SELECTOR[better], f"{MODEL_NAMES[better]} model chooses better"
        five = {(s, m): sign / 5 for s in BASELINES for sign, m in ((1, better), (-1, worse))}
        yield Claim(f"{text}, mean of the five", block, five)
        for strategy in BASELINES:
            yield Claim(f"{text}, {strategy}", block, {(strategy, better): 1.0, (strategy, worse): -1.0})


def observations(table: Iterable[Cell], archive: Archive) -> Iterator[Claim]:
    """Compare the two models on the EMD table's runs: whose labels are balanced, whose give more accuracy."""
    found: dict[tuple[float, float, str], dict[float, dict[Key, Cell]]] = {}
    for cell in table:
        e = cell.experiment
        if cell.al_round > 1:  # the first labels are random, and the same for both
            accuracy = replace(cell, measure=StoredRun.accuracy_in, paper=np.nan)
            for measure, own in ((cell.columns["measure"], cell), ("accuracy", accuracy)):
                rows = found.setdefault((e.rho, e.alpha, measure), {}).setdefault(cell.labelled, {})
                rows["entropy", e.selector] = own
    for text, measure, more, where in OBSERVATIONS:
        for rho, alpha in where:
            if by_percent := found.get((rho, alpha, measure)):
                block = gather(f"rho {rho:g}, alpha {alpha:g}", measure, by_percent, archive)
                two = {("entropy", more): 1.0, ("entropy", OTHER_SELECTOR[more]): -1.0}
                yield Claim(text, block, two)


def gather(
    where: str, measure: str, by_percent: Mapping[float, Mapping[Key, Cell]], archive: Archive
) -> Comparable:
    """Take the rows with two seeds at the first percentage, their seeds in common, and how far these got."""
    numbers = {
        percent: {row: by_seed(cell, archive) for row, cell in cells.items()}
        for percent, cells in by_percent.items()
    }
    rows = [row for row, seeds in numbers[min(numbers)].items() if len(seeds) > 1]
    common = (
        sorted(set.intersection(*(set(numbers[min(numbers)][row].index) for row in rows))) if rows else []
    )
    ours = {
        percent: pd.DataFrame({row: own[row].reindex(common) for row in rows})
        for percent, own in numbers.items()
    }
    return Comparable(
        where,
        measure,
        {percent: table for percent, table in ours.items() if table.size and table.notna().all(axis=None)},
        {percent: pd.Series({r: c.paper for r, c in cells.items()}) for percent, cells in by_percent.items()},
    )
