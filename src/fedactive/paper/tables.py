"""The paper's tables: the runs that each one needs, and its numbers beside ours.

A table is a list of cells. A cell is one published number, the experiment it comes from (of any seed), the
percent labelled at which it was read, and how it is read from a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy

from fedactive.analysis.diversity import global_emd_in, local_emd_in
from fedactive.errors import ConfigurationError, unknown_name
from fedactive.experiment import Experiment
from fedactive.paper import paper_table
from fedactive.paper.archive import Archive
from fedactive.paper.settings import SEEDS, SEEDS_OF_ALGORITHMS, paper_experiment
from fedactive.record.stored import StoredRun

TABLES = ("accuracy", "ensembles", "algorithms", "emd", "cost")
FILES = {"algorithms": "fl_algorithms", "cost": "query_cost_seconds"}  # of those named otherwise
CONFIDENCE = 0.95
NO_RUNS, ONE_SEED = "no runs", "one seed, no interval"
EMD = {"local_emd": local_emd_in, "global_emd": global_emd_in}


@dataclass(frozen=True)
class Cell:
    columns: dict[str, Any]  # what names it in the table
    experiment: Experiment
    labelled: float  # percent
    measure: Callable[[StoredRun, int], float]  # of an AL round
    paper: float

    @property
    def al_round(self) -> int:
        return round(self.labelled / self.experiment.budget)


def cells(name: str, **overrides: Any) -> list[Cell]:
    """The cells of a table, in the paper's order; `overrides` are settings of Experiment."""
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    rows = paper_table(FILES.get(name, name)).to_dict("records")
    if name == "emd":
        return [cell for row in rows for cell in _emd_cells(row, overrides)]
    return [_cell(name, row, overrides) for row in rows]


def _cell(name: str, row: dict[Any, Any], overrides: dict[str, Any]) -> Cell:
    """A number of CIFAR-10 or another dataset with alpha 0.1 and a budget of 5%, Experiment's defaults."""
    *names, number = row
    columns = {column: row[column] for column in names}
    data = {column: row[column] for column in ("dataset", "algorithm") if column in row}
    experiment = paper_experiment(row["strategy"], row["selector"], **(data | overrides))
    labelled = float(str(row["labelled_percent"]).split("->")[-1])  # "5->10": the query that reaches 10%
    measure = StoredRun.query_seconds_in if name == "cost" else StoredRun.accuracy_in
    return Cell(columns, experiment, labelled, measure, float(row[number]))


def _emd_cells(row: dict[Any, Any], overrides: dict[str, Any]) -> list[Cell]:
    """Entropy on CIFAR-10, its classes thinned, with a budget of 10%: two numbers in a row."""
    data = {"rho": row["rho"], "alpha": row["alpha"], "budget": 10}
    columns = {
        "dataset": "cifar10",
        "rho": row["rho"],
        "alpha": row["alpha"],
        "strategy": "entropy",
        "selector": row["selector"],
        "labelled_percent": row["labelled_percent"],
    }
    experiment = paper_experiment("entropy", row["selector"], **(data | overrides))
    return [
        Cell(columns | {"measure": name}, experiment, row["labelled_percent"], measure, float(row[name]))
        for name, measure in EMD.items()
    ]


def table_experiments(
    name: str,
    *,
    until: float | None = None,
    seeds: Sequence[int] | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    **overrides: Any,
) -> list[Experiment]:
    """The runs of a table, each as far as its last number, or `until` percent labelled if that is less."""
    chosen = only(cells(name, **overrides), dataset=datasets, strategy=strategies)
    if seeds is None:
        seeds = SEEDS_OF_ALGORITHMS if name == "algorithms" else SEEDS
    furthest: dict[str, Cell] = {}  # by an experiment's name, without seeds
    for cell in chosen:
        known = furthest.setdefault(cell.experiment.name, cell)
        if cell.labelled > known.labelled:
            furthest[cell.experiment.name] = cell
    return [  # seed by seed: whatever is stopped early leaves all rows with the same seeds
        replace(stop_at(cell.experiment, cell.labelled, until), seed=seed)
        for seed in seeds
        for cell in furthest.values()
    ]


def stop_at(experiment: Experiment, percent: float, until: float | None) -> Experiment:
    """The experiment, ending at that percent labelled, or at `until` if that is less."""
    if until is not None and not until >= experiment.budget:  # nan, too
        raise ConfigurationError("until", until, f"at least one budget, {experiment.budget:g}%")
    percent = percent if until is None else min(percent, until)
    return replace(experiment, rounds=int(percent / experiment.budget + 1e-9))


def only(chosen: list[Cell], **values: Sequence[str] | None) -> list[Cell]:
    """The cells of these datasets, or strategies, as the table names them; None is all of them."""
    for field, wanted in values.items():
        names = [cell.columns.get(field, getattr(cell.experiment, field)) for cell in chosen]
        kept = among(field, wanted, set(names))
        chosen = [cell for cell, name in zip(chosen, names, strict=True) if name in kept]
    return chosen


def up_to(until: float | None, chosen: list[Cell]) -> list[Cell]:
    """The cells of no more than that percent labelled; None is all of them."""
    first = min(cell.labelled for cell in chosen)
    if until is not None and not until >= first:
        raise ConfigurationError("until", until, f"at least {first:g}, where the paper's numbers begin")
    return [cell for cell in chosen if until is None or cell.labelled <= until]


def among(field: str, wanted: Sequence[str] | None, known: set[str]) -> set[str]:
    """The values asked for, if they are known here; None asks for all."""
    for value in wanted or ():
        if value not in known:
            raise unknown_name(field, value, known)
    return known if wanted is None else set(wanted)


def table(
    name: str,
    archive: Archive,
    *,
    until: float | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    **overrides: Any,
) -> pd.DataFrame:
    """The paper's numbers beside ours: one row per cell.

    `paper, ours` (mean over seeds), `std` (over n - 1), `seeds, difference` (ours less the paper's),
    `low, high` (95% t-interval of our mean), `inside` (the paper's number lies in it; missing where there is
    no interval) and a `note` why there is none. A run counts as far as it has got.
    """
    rows = []
    for cell in up_to(until, only(cells(name, **overrides), dataset=datasets, strategy=strategies)):
        ours = by_seed(cell, archive).to_numpy()
        rows.append(cell.columns | {"paper": cell.paper} | beside(cell.paper, ours))
    return pd.DataFrame(rows).astype({"inside": "boolean"})


def by_seed(cell: Cell, archive: Archive) -> pd.Series:
    """Our numbers, of the runs that have got so far, as far as they are known."""
    runs = [run for run in archive.of(cell.experiment) if run.rounds >= cell.al_round]
    return pd.Series({run.seed: cell.measure(run, cell.al_round) for run in runs}, dtype=float).dropna()


def beside(paper: float, values: np.ndarray) -> dict[str, Any]:
    """What our seeds say about one of the paper's numbers."""
    n = len(values)
    mean = float(values.mean()) if n else np.nan
    std = float(values.std(ddof=1)) if n > 1 else np.nan
    half = float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * std / n**0.5 if n > 1 else np.nan
    return {
        "ours": mean,
        "std": std,
        "seeds": n,
        "difference": mean - paper,
        "low": mean - half,
        "high": mean + half,
        "inside": abs(mean - paper) <= half if n > 1 else pd.NA,
        "note": {0: NO_RUNS, 1: ONE_SEED}.get(n, ""),
    }
