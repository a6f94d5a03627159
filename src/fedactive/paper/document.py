"""Tables inside a document, kept true to the results they were made from.

A table stands between two comments, of which the first says what it is:

    <!-- table: accuracy datasets=cifar10 until=40 precision=bf16 -->
    <!-- end -->

Its words are the name of a table and options of `fedactive paper show`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from fedactive.analysis.stored import StoredRun
from fedactive.errors import UserError
from fedactive.paper.reproduce import show

BLOCK = re.compile(r"(<!-- table: (?P<what>.+?) -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL)
READ: dict[str, Any] = {
    "until": float,
    "datasets": lambda text: text.split(","),
    "fl_rounds": int,
    "partition": str,
    "schedule": str,
    "precision": str,
}


def filled(document: str, runs: Iterable[StoredRun]) -> str:
    """The document with every table made anew from these runs; rows without any of ours are left out."""
    runs = list(runs)

    def table(found: re.Match[str]) -> str:
        name, *words = found["what"].split()
        options = {}
        for word in words:
            option, _, value = word.partition("=")
            if option not in READ:
                allowed = ", ".join(READ)
                raise UserError(
                    f"<!-- table: {found['what']} -->: unknown option {option}; allowed: {allowed}"
                )
            options[option] = READ[option](value)
        frame = show(name, runs, **options)
        if "seeds" in frame:
            frame = frame[frame["seeds"] > 0]
        return found[1] + markdown(frame) + found[4]

    if not BLOCK.search(document):
        raise UserError("the document has no '<!-- table: NAME -->' ... '<!-- end -->' to fill")
    return BLOCK.sub(table, document)


def markdown(frame: pd.DataFrame) -> str:
    """The table as Markdown: the paper's number, ours ± standard deviation, seeds, difference."""
    if "ours" in frame:
        frame = frame.drop(columns=["low", "high", "note"], errors="ignore")
    head = [str(column).replace("_", " ") for column in frame.columns]
    rows = [[cell(value) for value in row] for row in frame.itertuples(index=False)]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if pd.isna(value):
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
