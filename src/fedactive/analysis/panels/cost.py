"""Time and labels that a run of each strategy takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedactive.analysis.charts import bar_chart
from fedactive.analysis.panels import Sortable, TableCell, Values


def time_unit(seconds: float) -> tuple[str, float]:
    """Choose the unit to show this many seconds in; return it with its length in seconds."""
    units = (("s", 1, 600), ("min", 60, 36e3), ("h", 3600, np.inf))
    return next((unit, length) for unit, length, most in units if seconds < most)


class Cost(NamedTuple):
    """Mean time of a strategy's runs in a setting, the fastest first."""

    what: str  # the times are of: one run, or the AL rounds that all runs went through
    unit: str
    phases: pd.DataFrame  # a row per strategy, a column per phase
    bought: pd.Series  # labels until then, by strategy


def cost_of(curves: pd.DataFrame, seconds: pd.DataFrame) -> Cost | None:
    """Compute means over the runs of each strategy in a setting; `seconds` is that of `results.Runs`.

    Only AL rounds that all runs went through count: some end earlier, and most take over the first one.
    """
    points = curves.set_index(["run", "al_round"])
    timed = seconds.reindex(points.index).dropna(how="all")
    runs = timed.index.to_frame(index=False).groupby("al_round")["run"].nunique()
    common = runs.index[runs == points.index.unique("run").size]
    if common.empty:
        return None
    what = "one run"
    if len(common) < points.index.unique("al_round").size:
        first, last = common.min(), common.max()
        which = f"AL round {last}" if first == last else f"AL rounds {first} to {last}"
        what = f"{which}, which all runs went through themselves,"
    strategy = points["strategy"].groupby("run").first()
    spent = timed[timed.index.isin(common, level="al_round")].groupby("run").sum(min_count=1)
    table = spent.groupby(strategy).mean().dropna(axis=1, how="all").fillna(0)
    unit, length = time_unit(table.sum(axis=1).max())
    table = table.loc[table.sum(axis=1).sort_values().index] / length
    bought = points["labels"].xs(common.max(), level="al_round").groupby(strategy).mean()
    return Cost(what, unit, table, bought)


def cost_panel(curves: pd.DataFrame, seconds: pd.DataFrame) -> Values | None:
    """Make the chart and the table of `cost_of`."""
    cost = cost_of(curves, seconds)
    if cost is None:
        return None
    table, unit = cost.phases, cost.unit
    bars = {str(name): values.tolist() for name, values in zip(table.index, table.to_numpy(), strict=True)}
    rows = []
    for name, values in zip(bars, table.to_numpy(), strict=True):
        numbers = [*values, values.sum()]
        times = [TableCell(v, f"{v:.3g}" if v >= 0.001 else "0") for v in numbers]
        rows.append((name, [TableCell(cost.bought[name], f"{cost.bought[name]:,.0f}"), *times]))
    phases = [str(phase) for phase in table.columns]
    columns = ["strategy", "labels", *(f"{phase} ({unit})" for phase in [*phases, "all"])]
    chart = Markup(bar_chart(bars, phases, f"Time of {cost.what} by phase", unit))
    return {"what": cost.what, "chart": chart, "table": Sortable(columns, rows)}
