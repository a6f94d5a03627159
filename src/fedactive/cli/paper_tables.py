"""The paper's tables in the terminal: narrower than as CSV, with mean and spread in one column."""

from __future__ import annotations

import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedactive.cli.tables import print_whole


def print_table(frame: pd.DataFrame, title: str) -> None:
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown = compact(frame) if "ours" in frame.columns else frame
    for column in shown.columns:
        table.add_column(str(column), justify="right" if is_numeric_dtype(shown[column]) else "left")
    for row in shown.itertuples(index=False):
        table.add_row(*("" if pd.isna(v) else f"{v:.2f}" if isinstance(v, float) else str(v) for v in row))
    print_whole(table)


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    digits = 3 if "measure" in frame.columns else 2  # EMD is printed with three

    def number(value: float) -> str:
        return "" if pd.isna(value) else f"{value:.{digits}f}"

    spread = [f" ±{number(s)}" if pd.notna(s) else "" for s in frame["std"]]
    ours = [number(mean) + s for mean, s in zip(frame["ours"], spread, strict=True)]
    shown = frame.drop(columns=["std", "low", "high", "note", "difference", "inside"])
    shown = shown.assign(paper=frame["paper"].map(number), ours=ours)
    shown["diff"] = frame["difference"].map(number)
    shown["inside"] = frame["inside"].map({True: "yes", False: "no"})
    return shown.rename(columns={"labelled_percent": "%"})
