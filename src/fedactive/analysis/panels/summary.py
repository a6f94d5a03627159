"""The summary: which strategies are best over all settings, and a row for each setting to find it by."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from fedactive.analysis.areas import standing, test_areas
from fedactive.analysis.panels import Sortable, TableCell
from fedactive.analysis.results import Runs


def strategies_table(areas: pd.DataFrame) -> Sortable:
    """Make a row for each strategy: in how many settings it is best, whom it is better and worse than."""
    if areas.empty:
        return Sortable(["strategy"], [])
    means = areas.groupby(["setting", "strategy"])["area"].mean()
    best = means.groupby("setting").idxmax().map(lambda place: place[1]).value_counts()
    settings = areas.groupby("strategy")["setting"].nunique()
    tests = test_areas(areas)
    rows = []
    for name in settings.index:
        stands = standing(tests, str(name), list(settings.index))
        numbers = (settings[name], best.get(name, 0), *map(len, stands))
        rows.append((str(name), [TableCell(n, n) for n in numbers]))
    rows.sort(key=lambda row: (row[1][3].value - row[1][2].value, -row[1][1].value))
    return Sortable(["strategy", "settings", "best in", "better than", "worse than", "undecided"], rows)


def settings_table(runs: Runs, areas: pd.DataFrame, tests: pd.DataFrame) -> Sortable:
    """Make a row for each setting, which leads to it: which strategy is best, and what the setting is.

    `tests` are those of each setting by itself.
    """
    columns = ["", "best", "mean accuracy (%)", "better than", "strategies", "seeds", *runs.varied]
    rows = []
    for number, (setting, part) in enumerate(runs.configuration.groupby("setting"), 1):
        first = part.iloc[0]
        counts = [TableCell(n, n) for n in (part["label"].nunique(), part["seed"].nunique())]
        own = (table[table["setting"] == setting] for table in (areas, tests))
        values = [number_or_text(first[name]) for name in runs.varied]
        rows.append((link(number), [*verdict(*own), *counts, *values]))
    return Sortable(columns, rows)


def verdict(areas: pd.DataFrame, tests: pd.DataFrame) -> list[TableCell]:
    """Return the best strategy of a setting, its mean accuracy on the way, and whom it is better than."""
    if areas.empty:
        return [TableCell("", "unknown"), TableCell(float("nan"), "–"), TableCell(float("nan"), "–")]
    means = areas.groupby("strategy")["area"].mean().sort_values(ascending=False)
    best, names = str(means.index[0]), list(means.index)
    better = len(standing(tests, best, names).better)
    return [
        TableCell(best, best),
        TableCell(means.iloc[0], f"{means.iloc[0]:.1f}"),
        TableCell(better, f"{better} of {len(names) - 1}"),
    ]


def link(number: int) -> Markup:
    return Markup('<a href="#setting-{0}">{0}</a>').format(number)


def number_or_text(value: object) -> TableCell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return TableCell(value, f"{value:g}")
    return TableCell(str(value), str(value))
