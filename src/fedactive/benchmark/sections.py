"""A verdict as sections of text: a title, a table, a note. Terminal, Markdown and LaTeX show the same."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pandas as pd

from fedactive.analysis.latex import escape, latex_table
from fedactive.analysis.markdown import to_markdown
from fedactive.benchmark.suite import BASELINE
from fedactive.benchmark.verdict import Verdict
from fedactive.record.schema import METRICS


class Section(NamedTuple):
    title: str
    table: pd.DataFrame  # of text, the first column names the row; empty if there is nothing to show
    note: str


def sections_of(verdict: Verdict) -> list[Section]:
    """Write all that is known of a suite: who is best, accuracy by budget, decided pairs, labels, cost."""
    places = list(dict.fromkeys(verdict.points["setting"]))
    curves = [curve_section(verdict, place, m) for place in places for m in verdict.suite.metrics]
    labels = [saving_section(verdict, place) for place in places]
    return [summary_section(verdict), *curves, pairs_section(verdict), *filter(None, labels)]


def summary_section(verdict: Verdict) -> Section:
    areas = verdict.mean_areas
    cost, runs = verdict.cost(), verdict.areas.groupby("method").size()
    rows = []
    for name in verdict.methods:
        stands = verdict.standing(name)
        rows.append(
            {
                "method": name,
                "mean rank": f"{verdict.ranks.means[name]:.2f}" if verdict.ranked else "",
                "mean accuracy": f"{areas[name]:.2f}" if name in areas else "",
                "better than": str(len(stands.better)),
                "worse than": str(len(stands.worse)),
                "undecided": str(len(stands.undecided)),
                "s/query": f"{cost[name]:.3g}" if name in cost else "",
                "runs": str(runs.get(name, 0)),
            }
        )
    return Section("Who is best", pd.DataFrame(rows), summary_note(verdict))


def summary_note(verdict: Verdict) -> str:
    ranks, note = verdict.ranks, ""
    if verdict.ranked:
        note = f"Mean ranks over {ranks.comparisons} comparisons (settings × budgets after AL round 1). "
        if not math.isnan(ranks.p):
            p = "below 0.0001" if ranks.p < 1e-4 else f"{ranks.p:.2g}"
            note += f"Friedman's test: p {p}. "
            note += f"Nemenyi's critical difference (5%): {ranks.critical_difference:.2f}. "
            note += "Budgets of one setting are not independent, so rely on the pairs. "
    hardware = sorted(set(verdict.points["hardware"].dropna()))
    shared = verdict.shared_settings
    note += (
        f"Mean accuracy on the way, over the {len(shared)} settings that all have. "
        if len(shared) > 1
        else ""
    )
    if len(verdict.shared_areas) < verdict.areas["setting"].isin(shared).sum():
        note += "Ranks and mean accuracy leave out seeds that not all have. "
    note += "Better, worse and undecided count methods, by paired tests. "
    note += f"Seconds are of one client's query, local-only training included, on {' and '.join(hardware)}."
    if verdict.absent:
        note += f" No runs yet: {', '.join(verdict.absent)}."
    return note


def curve_section(verdict: Verdict, setting: str, metric: str) -> Section:
    """Write the mean ± deviation of a metric by budget."""
    part = verdict.points[verdict.points["setting"] == setting]
    title = f"{METRICS[metric].heading}: {setting}"
    if part[metric].isna().all():
        return Section(title, pd.DataFrame(), "not known of these runs, which an older version made.")
    table = pd.DataFrame({"method": [name for name in verdict.methods if name in set(part["method"])]})
    for _, column in part.groupby("al_round"):
        values = column.groupby("method")[metric]
        cells = {name: mean_cell(seeds.dropna()) for name, seeds in values}
        table[budget(column["labelled"].mean(), column["unit"].iloc[0])] = (
            table["method"].map(cells).fillna("")
        )
    seeds = part.groupby("method")["seed"].nunique()
    fewer = [f"{name} {count}" for name, count in seeds.items() if count < seeds.max()]
    note = f"Mean ± standard deviation over {seeds.max()} seed{'s' if seeds.max() > 1 else ''}"
    return Section(title, table, note + (f" (fewer: {', '.join(fewer)})." if fewer else "."))


def mean_cell(seeds: pd.Series) -> str:
    if seeds.empty:
        return ""
    return f"{seeds.mean():.2f}" + (f" ± {seeds.std():.2f}" if len(seeds) > 1 else "")


def budget(value: float, unit: str) -> str:
    return f"{value:,.0f} labels" if unit == "labels" else f"{value:.3g}%"


def pairs_section(verdict: Verdict) -> Section:
    """Write the pairs of methods that are decided."""
    tests = verdict.tests
    tested, decided = int(tests["p"].notna().sum()), tests[tests["significant"]].sort_values("p_holm")
    rows = []
    pairs: list[Any] = list(decided.itertuples())
    for test in pairs:
        better, worse = (test.i, test.j) if test.mean_difference > 0 else (test.j, test.i)
        rows.append(
            {
                "better": better,
                "worse": worse,
                "difference": f"{abs(test.mean_difference):.2f}",
                "p (Holm)": f"{test.p_holm:.2g}",
                "pairs of runs": str(test.n),
            }
        )
    rule = "exact paired t-tests of the mean accuracy on the way, by seed and setting; Holm over all pairs"
    return Section(
        "Decided pairs", pd.DataFrame(rows), f"{len(decided)} of {tested} pairs are decided: {rule}."
    )


def saving_section(verdict: Verdict, setting: str) -> Section | None:
    """Write how much random would have had to label for the accuracy that each method has at each budget."""
    needed = verdict.needed_by_random()
    part = verdict.points[verdict.points["setting"] == setting]
    if needed.empty or setting not in needed.index.get_level_values("setting"):
        return None
    needed = pd.DataFrame(needed.xs(setting, level="setting"))
    unit = part["unit"].iloc[0]
    random = part[part["method"] == BASELINE]
    first, last = random["labelled"].min(), random["labelled"].max()
    rows = {"method": list(needed.index)}
    for al_round, column in part[part["al_round"] > 1].groupby("al_round"):
        values = needed[al_round] if al_round in needed else pd.Series(index=needed.index, dtype=float)
        rows[f"at {budget(column['labelled'].mean(), unit)}"] = [
            needed_cell(value, first, last, unit) for value in values
        ]
    note = f"How much {BASELINE} would have had to label for the same accuracy, on its mean curve."
    return Section(f"Labels that {BASELINE} would need: {setting}", pd.DataFrame(rows), note)


def needed_cell(value: float, first: float, last: float, unit: str) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return f"more than {budget(last, unit)}"
    if value <= first:
        return f"{budget(first, unit)} or less"
    return budget(value, unit) if unit == "labels" else f"{value:.1f}%"


# --- forms


def as_markdown(sections: list[Section], level: int = 4) -> str:
    parts = []
    for title, table, note in sections:
        parts.append(f"{'#' * level} {title}\n\n" + (f"{to_markdown(table)}\n" if len(table) else "") + note)
    return "\n\n".join(parts) + "\n"


def as_latex(sections: list[Section]) -> str:
    """Write tables for a paper; what has none is a comment."""
    parts = []
    for title, table, note in sections:
        rows = [[escape(str(cell)) for cell in row] for row in table.itertuples(index=False)]
        columns = [str(column) for column in table.columns]
        made = latex_table(f"{title}. {note}", columns, [("", rows)]) if rows else f"% {title}: {note}"
        parts.append(made)
    return "\n\n".join(parts) + "\n"
