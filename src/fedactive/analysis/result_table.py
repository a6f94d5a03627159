"""The table of a paper: a metric by setting, strategy and budget, and which strategies are best.

In each column the best mean is marked, and with it every strategy that is not significantly worse by the
tests of `significance.paired_tests`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedactive.analysis.curves import PERCENT, Axis, axis_of
from fedactive.analysis.seeds import seeds_text
from fedactive.analysis.significance import paired_tests
from fedactive.errors import ConfigurationError, RunError
from fedactive.record.schema import METRICS

BEST, NEAR = "best", "near"  # marks of a cell: near is not significantly worse than the best
CLOSE = 0.05  # a budget is meant if it is nearer than this share of it


@dataclass(frozen=True)
class ResultTable:
    """`cells` has a row for each setting, strategy and budget that has a known mean.

    Columns: `setting, strategy, al_round, budget` (as a heading), `labelled` (percent), `labels`, `mean, std,
    seeds, mark`. Strategies of a setting are in order, the best at its last budget first.
    """

    metric: str
    axis: Axis
    cells: pd.DataFrame
    curves: pd.DataFrame  # that the cells are of, with the metric as `accuracy`

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(self.cells["setting"]))

    @property
    def budgets(self) -> list[str]:
        """Return the headings of the columns, the smallest budget first."""
        return list(self.cells.groupby("budget")["labels"].mean().sort_values().index)

    def caption(self, best: str, near: str) -> str:
        """Say what the numbers are; `best` and `near` say how these are marked."""
        entry = METRICS[self.metric]
        unit = " in percent" if entry.percent else ""
        by = "share of labelled samples" if self.axis is PERCENT else self.axis.title
        text = f"Test {entry.title}{unit} by {by}, mean ± standard deviation"
        text += f" over {seeds_text(self.curves)}."
        if (self.cells["mark"] == BEST).any():
            text += f" {best}: best of its column"
            tested = "exact paired t-tests by seed, Holm's correction for all pairs of a column, 5%"
            near_ones = (self.cells["mark"] == NEAR).any()
            text += f"; {near}: not significantly worse than the best ({tested})." if near_ones else "."
        return text


def result_tables(
    curves: pd.DataFrame, metric: str = "accuracy", budgets: Sequence[float] = ()
) -> list[ResultTable]:
    """Make a table of the settings that have the same budgets, or of all settings if budgets are chosen.

    A budget is chosen as budgets were given: in percent, or as the number of all clients' labels.
    """
    known = curves.assign(accuracy=curves[metric]).dropna(subset="accuracy")
    if known.empty:
        raise RunError(f"the {METRICS[metric].title} of these runs is not known")
    parts: dict[tuple[object, ...], list[pd.DataFrame]] = {}
    for _, part in known.groupby("setting"):
        axis = axis_of(part)
        labelled = axis.by_round(part)
        headings = dict(zip(labelled.index, axis.headings(labelled.to_numpy()), strict=True))
        if budgets:
            headings = chosen_rounds(labelled, budgets, axis)
        if headings:
            shown = part[part["al_round"].isin(headings.keys())]
            shown = shown.assign(budget=shown["al_round"].map(headings))
            group = (axis.column, *(() if budgets else headings.values()))
            parts.setdefault(group, []).append(shown)
    if not parts:
        allowed = ", ".join(axis_of(known).headings(np.unique(axis_of(known).by_round(known).round(4))))
        raise ConfigurationError("at", ",".join(f"{b:g}" for b in budgets), f"some of {allowed}")
    return [one_table(pd.concat(group), metric) for group in parts.values()]


def chosen_rounds(labelled: pd.Series, budgets: Sequence[float], axis: Axis) -> dict[int, str]:
    """Return the headings of the AL rounds that have these budgets."""
    headings = {}
    for budget in budgets:
        distance = (labelled - budget).abs()
        nearest = labelled.index[int(distance.argmin())]
        if distance[nearest] <= CLOSE * budget:
            headings[int(nearest)] = f"{budget:g}%" if axis.column == "labelled" else f"{budget:g}"
    return headings


def one_table(curves: pd.DataFrame, metric: str) -> ResultTable:
    keys = ["setting", "strategy", "al_round"]
    grouped = curves.groupby(keys)
    cells = grouped.agg(
        budget=("budget", "first"),
        labelled=("labelled", "mean"),
        labels=("labels", "mean"),
        mean=("accuracy", "mean"),
        std=("accuracy", "std"),
        seeds=("accuracy", "count"),
    ).reset_index()
    cells = cells.merge(marks(cells, curves, metric), on=keys)
    sign = 1 if METRICS[metric].lower_is_better else -1
    last = cells.sort_values("al_round").groupby(["setting", "strategy"])[["al_round", "mean"]].last()
    order = last.assign(mean=sign * last["mean"], al_round=-last["al_round"]).reset_index()
    order = order.sort_values(["setting", "al_round", "mean"], kind="stable")[["setting", "strategy"]]
    cells = order.merge(cells.sort_values("al_round"), on=["setting", "strategy"])
    return ResultTable(metric, axis_of(curves), cells, curves)


def marks(cells: pd.DataFrame, curves: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mark the best mean of every setting and AL round, and what is not significantly worse.

    Where all are equal as they are shown, as in AL round 1, nothing is marked. With one seed there is no
    test, and only the best is marked.
    """
    entry = METRICS[metric]
    tests = paired_tests(curves[["setting", "strategy", "seed", "al_round", "labelled", "accuracy"]])
    undecided = {
        (test.setting, test.al_round, *pair)
        for test in tests[(tests["n"] > 1) & ~tests["significant"]].itertuples()
        for pair in [(test.i, test.j), (test.j, test.i)]
    }
    rows = []
    for (setting, al_round), part in cells.groupby(["setting", "al_round"]):
        means = part.set_index("strategy")["mean"]
        shown = means.map(entry.show)
        best = str(means.idxmin() if entry.lower_is_better else means.idxmax())
        for name in part["strategy"]:
            mark = ""
            if len(set(shown)) > 1:
                if shown[name] == shown[best]:
                    mark = BEST
                elif (setting, al_round, best, name) in undecided:
                    mark = NEAR
            rows.append((setting, name, al_round, mark))
    return pd.DataFrame(rows, columns=["setting", "strategy", "al_round", "mark"])
