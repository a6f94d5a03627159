"""Tables of numbers as Markdown."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

NUMBER = re.compile(r"[*+-]*\d")  # what a cell with a number begins with; the best are bold


def to_markdown(frame: pd.DataFrame) -> str:
    """Write a table; columns of numbers are flush right."""
    head = [str(column).replace("_", " ") for column in frame.columns]
    rows = [[format_value(value) for value in row] for row in frame.itertuples(index=False)]
    rules = [
        "---:" if all(NUMBER.match(v) for v in column if v) else "---" for column in zip(*rows, strict=True)
    ]
    lines = [head, rules or ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def format_value(value: Any) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def format_mean(mean: float, spread: float, seeds: int, digits: int, sign: str = "") -> str:
    """Write `66.91 ± 0.20 (4)`; one seed has no spread."""
    return f"{mean:{sign}.{digits}f}" + (f" ± {spread:.{digits}f}" if seeds > 1 else "") + f" ({seeds})"
