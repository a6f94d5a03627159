"""The table of a paper as LaTeX, Markdown and CSV."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedactive.analysis.latex import escape, latex_table
from fedactive.analysis.quotable import significance_sentence
from fedactive.analysis.result_table import BEST, NEAR, ResultTable
from fedactive.record.schema import METRICS

Mark = Callable[[str], str]


def as_markdown(tables: Sequence[ResultTable]) -> str:
    """Write each table with its caption and the sentence of significance below it."""
    marks: dict[str, Mark] = {BEST: lambda text: f"**{text}**", NEAR: lambda text: f"*{text}*"}
    parts = []
    for table in tables:
        columns = columns_of(table)
        lines = [columns, ["---", *["---:"] * (len(columns) - 1)]]
        for setting, rows in groups_of(table, marks):
            lines += [[f"*{setting}*", *[""] * (len(columns) - 1)]] if setting else []
            lines += rows
        body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        sentence = significance_sentence(table.curves, table.metric)
        parts.append(f"{body}\n{table.caption('Bold', 'italic')}\n\n{sentence}\n")
    return "\n".join(parts)


def as_latex(tables: Sequence[ResultTable]) -> str:
    """Write each table with its caption, which ends with the sentence of significance."""
    marks: dict[str, Mark] = {BEST: r"\textbf{{{}}}".format, NEAR: r"\underline{{{}}}".format, "": str}
    plain = {mark: (lambda text, how=how: how(escape(text))) for mark, how in marks.items()}
    texts = []
    for table in tables:
        caption = f"{table.caption('Bold', 'underlined')} {significance_sentence(table.curves, table.metric)}"
        texts.append(latex_table(caption, columns_of(table), list(groups_of(table, plain, escape))))
    return "% needs \\usepackage{booktabs}\n" + "\n\n".join(texts) + "\n"


def as_csv(tables: Sequence[ResultTable]) -> str:
    """Write a row for each setting, strategy and budget, with all digits."""
    cells = pd.concat([table.cells.assign(metric=table.metric) for table in tables])
    columns = [
        "setting",
        "strategy",
        "al_round",
        "labelled",
        "labels",
        "metric",
        "mean",
        "std",
        "seeds",
        "mark",
    ]
    return str(cells[columns].to_csv(index=False, lineterminator="\n"))


FORMS: dict[str, Callable[[Sequence[ResultTable]], str]] = {
    "latex": as_latex,
    "markdown": as_markdown,
    "csv": as_csv,
}
ENDINGS = {".tex": "latex", ".md": "markdown", ".csv": "csv"}


# --- parts


def columns_of(table: ResultTable) -> list[str]:
    seeds = ["seeds"] if uneven(table) else []
    return ["strategy", *seeds, *table.budgets]


def groups_of(
    table: ResultTable, marks: Mapping[str, Mark], plain: Mark = str
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each setting with its rows as text; the only setting has no name."""
    for setting, part in table.cells.groupby("setting", sort=False):
        rows = []
        for name, own in part.groupby("strategy", sort=False):
            most = int(own["seeds"].max())
            entries = own.to_dict("records")
            texts = {entry["budget"]: cell(entry, table.metric, most, marks) for entry in entries}
            cells = [texts.get(budget, "") for budget in table.budgets]
            rows.append([plain(str(name)), *([str(most)] if uneven(table) else []), *cells])
        yield (str(setting) if len(table.settings) > 1 else ""), rows


def cell(entry: Mapping[Hashable, Any], metric: str, most: int, marks: Mapping[str, Mark]) -> str:
    """Write `66.9 ± 0.2` as its mark says, followed by the number of seeds where it is less than `most`."""
    show = METRICS[metric].show
    text = show(entry["mean"]) + (f" ± {show(entry['std'])}" if entry["seeds"] > 1 else "")
    text += f" ({entry['seeds']})" if entry["seeds"] < most else ""
    return marks[entry["mark"]](text) if entry["mark"] in marks else text


def uneven(table: ResultTable) -> bool:
    """Have strategies different numbers of seeds?"""
    return len(set(table.cells.groupby(["setting", "strategy"])["seeds"].max())) > 1
