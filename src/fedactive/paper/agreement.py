"""How near our accuracies are to the paper's (the limits are those of docs/STATISTICS.md), and in what order.

If the paper's seeds scatter as ours do, 95% of the differences between equals lie within 1.96·s·√(1/n + 1/m).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedactive.paper.settings import SEEDS, SEEDS_OF_ALGORITHMS
from fedactive.paper.tables import by_seed, cells, table
from fedactive.record.archive import Archive

ACCURACIES = {"accuracy": SEEDS, "ensembles": SEEDS, "algorithms": SEEDS_OF_ALGORITHMS}  # the paper's seeds
TWO_SIDED_95 = 1.96


def spread_of_seeds(name: str, archive: Archive, **overrides: Any) -> dict[str, float]:
    """Estimate s by dataset: the root of the mean variance over seeds, of a table's rows and percentages."""
    variances: dict[str, list[float]] = {}
    for cell in cells(name, **overrides):
        ours = by_seed(cell, archive)
        if len(ours) > 1:
            variances.setdefault(cell.columns["dataset"], []).append(float(ours.var(ddof=1)))
    return {dataset: float(np.sqrt(np.mean(found))) for dataset, found in variances.items()}


def with_limits(frame: pd.DataFrame, name: str, archive: Archive, **overrides: Any) -> pd.DataFrame:
    """Add to a table of accuracies the `limit` of each difference, and whether it is `near`: within it."""
    s = frame["dataset"].map(spread_of_seeds(name, archive, **overrides)).astype(float)
    n = frame["seeds"].where(frame["seeds"] > 0)
    limit = TWO_SIDED_95 * s * np.sqrt(1 / n + 1 / len(ACCURACIES[name]))
    return frame.assign(limit=limit, near=frame["difference"].abs() <= limit)


def all_accuracies(archive: Archive, **overrides: Any) -> pd.DataFrame:
    """Return every accuracy that the paper prints, once, with ours, its limit, and the name of its table."""
    parts = [
        with_limits(table(name, archive, **overrides), name, archive, **overrides).assign(table=name)
        for name in ACCURACIES
    ]
    found = pd.concat(parts, ignore_index=True)
    again = (found["table"] == "ensembles") & (found["strategy"] == "logo")  # LoGo's of the accuracy table
    return found[~again].reset_index(drop=True)


def rank_agreement(frame: pd.DataFrame) -> pd.Series:
    """Compute Spearman's correlation of our means and the paper's, by percent labelled (and algorithm).

    Columns of fewer than three rows have none.
    """
    known = frame[frame["seeds"] > 0]
    keys = [key for key in ("algorithm", "labelled_percent") if key in known]
    columns = {
        key: part["ours"].rank().corr(part["paper"].rank())
        for key, part in known.groupby(keys)
        if len(part) > 2
    }
    return pd.Series(columns, dtype=float).dropna()


def summarise_agreement(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Make a row per table and dataset: how many numbers the paper prints, how many we ran, how near."""
    rows = []
    for (name, dataset), part in accuracies.groupby(["table", "dataset"], sort=False):
        run = part[part["seeds"] > 0]
        ranks = rank_agreement(part.dropna(axis="columns", how="all"))
        rows.append(
            {
                "table": name,
                "dataset": dataset,
                "printed": len(part),
                "run": len(run),
                "within limits": int(run["near"].sum()),
                "limit": f"±{run['limit'].median():.2f}" if len(run) else "",
                "mean difference": f"{run['difference'].mean():+.2f}" if len(run) else "",
                "rank correlation": f"{ranks.mean():.2f}" if len(ranks) else "",
            }
        )
    return pd.DataFrame(rows)
