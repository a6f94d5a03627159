"""The paper's tables: the runs that each one needs, and its numbers beside ours.

A table is a list of cells. A cell is one published number: the experiment it comes from (of any seed), the
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
from fedactive.paper.settings import COMPARED, all_settings, paper_experiment
from fedactive.record.archive import Archive
from fedactive.record.stored import StoredRun

PRINTED = {  # the tables with printed numbers, and their files
    "accuracy": "accuracy",
    "ensembles": "ensembles",
    "algorithms": "fl_algorithms",
    "emd": "emd",
    "cost": "query_cost_seconds",
}
EMD_COLUMNS = ["dataset", "rho", "alpha", "strategy", "selector", "labelled_percent", "measure", "emd"]
MEASURES = {"local_emd": local_emd_in, "global_emd": global_emd_in, "cost": StoredRun.query_seconds_in}
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    columns: dict[str, Any]  # what names it in the table
    experiment: Experiment
    labelled: float  # percent
    measure: Callable[[StoredRun, int], float]  # of an AL round
    paper: float

    @property
    def al_round(self) -> int:
        return round(self.labelled / self.experiment.percent)


def cells(
    name: str,
    *,
    until: float | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    **overrides: Any,
) -> list[Cell]:
    """List the cells of a table, in the paper's order; `overrides` are settings of Experiment.

    `until` leaves out those beyond that percent labelled, `datasets` and `strategies` those with other names
    than the table has; None leaves out none.
    """
    chosen = _setting_cells(overrides) if name == "penalty" else _printed_cells(name, overrides)
    for field, wanted in (("dataset", datasets), ("strategy", strategies)):
        names = [cell.columns.get(field, getattr(cell.experiment, field)) for cell in chosen]
        for value in wanted or ():
            if value not in names:
                raise unknown_name(field, value, set(names))
        if wanted is not None:
            chosen = [cell for cell, name in zip(chosen, names, strict=True) if name in wanted]
    first = min(cell.labelled for cell in chosen)
    if until is not None and not until >= first:  # refuses nan, too
        raise ConfigurationError("until", until, f"at least {first:g}, where the paper's numbers begin")
    return [cell for cell in chosen if until is None or cell.labelled <= until]


def _setting_cells(overrides: dict[str, Any]) -> list[Cell]:
    """List the ends of the learning curves of all 38 settings, of which the paper prints no numbers."""
    return [
        Cell(
            {"setting": setting.number, "dataset": setting.dataset, "strategy": strategy},
            e := setting.experiment(strategy, **overrides),
            e.rounds * e.percent,
            StoredRun.accuracy_in,
            np.nan,
        )
        for setting in all_settings()
        for strategy in COMPARED
    ]


def _printed_cells(name: str, overrides: dict[str, Any]) -> list[Cell]:
    table = paper_table(PRINTED[name])
    if name == "emd":  # two numbers in a row, of entropy on CIFAR-10 with thinned classes
        names = ["rho", "alpha", "selector", "labelled_percent"]
        table = table.melt(names, var_name="measure", value_name="emd", ignore_index=False)
        table = table.sort_index(kind="stable").assign(dataset="cifar10", strategy="entropy")[EMD_COLUMNS]
    return [_cell(name, row, overrides) for row in table.to_dict("records")]


def _cell(name: str, row: dict[Any, Any], overrides: dict[str, Any]) -> Cell:
    """Make a cell from a row: its last column is the number, the others name it."""
    *names, number = row
    data = {column: row[column] for column in ("dataset", "algorithm", "rho", "alpha") if column in row}
    if name == "emd":
        data["budget"] = 10  # the other tables have alpha 0.1 and a budget of 5%, as Experiment by default
    experiment = paper_experiment(row["strategy"], row["selector"], **(data | overrides))
    labelled = float(str(row["labelled_percent"]).split("->")[-1])  # "5->10": the query that reaches 10%
    measure = MEASURES.get(row.get("measure", name), StoredRun.accuracy_in)
    return Cell({column: row[column] for column in names}, experiment, labelled, measure, float(row[number]))


def stop_at(experiment: Experiment, percent: float, until: float | None) -> Experiment:
    """Return the experiment that ends at that percent labelled, or at `until` if that is less."""
    if until is not None and not until >= experiment.percent:  # refuses nan, too
        raise ConfigurationError("until", until, f"at least one budget, {experiment.percent:g}%")
    percent = percent if until is None else min(percent, until)
    return replace(experiment, rounds=int(percent / experiment.percent + 1e-9))


def table(name: str, archive: Archive, **chosen: Any) -> pd.DataFrame:
    """Return the paper's numbers beside ours: one row per cell, `chosen` as in `cells`.

    The columns are those that name the cell, `paper`, `ours` (mean over seeds), `std` (over n - 1), `seeds`,
    `difference` (ours minus the paper's), `low, high` (95% t-interval of our mean), `inside` (whether the
    paper's number lies in it; missing where there is no interval) and a `note` why there is none.
    """
    rows = []
    for cell in cells(name, **chosen):
        ours = by_seed(cell, archive).to_numpy()
        rows.append(cell.columns | {"paper": cell.paper} | compare(cell.paper, ours))
    return pd.DataFrame(rows).astype({"inside": "boolean"})


def by_seed(cell: Cell, archive: Archive) -> pd.Series:
    """Return our numbers by seed, from the runs that have got so far, without those that are unknown."""
    runs = [run for run in archive.find(cell.experiment) if run.rounds >= cell.al_round]
    return pd.Series({run.seed: cell.measure(run, cell.al_round) for run in runs}, dtype=float).dropna()


def compare(paper: float, values: np.ndarray) -> dict[str, Any]:
    """Compare one of the paper's numbers with ours, one value per seed."""
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
        "note": {0: "no runs", 1: "one seed, no interval"}.get(n, ""),
    }
