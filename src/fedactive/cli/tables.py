"""Results as tables in the terminal: of one run, of a comparison, and of the paper's numbers beside ours."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedactive.analysis.curves import axis_of, mean_curves
from fedactive.experiment import LAST_FL_ROUNDS
from fedactive.record.run_reader import read_run
from fedactive.record.state import divergence

if TYPE_CHECKING:
    from fedactive.record.run_tables import RunTables


def print_whole(table: Table) -> None:
    """Print a table without cutting names; a narrow terminal may break its lines."""
    console = Console()
    wide = console.options.update(width=1000)
    console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)


def print_result(result: RunTables) -> None:
    """Print the accuracy by AL round, and where the run folder is."""
    read_run(result.folder)  # if it ended earlier, its tables may be damaged by now
    metrics = result.metrics
    labelled = metrics.groupby("al_round")["labelled"].first().to_dict()
    table = Table("AL round", "labelled", "test accuracy")
    for al_round, accuracy in result.accuracy.items():
        known = "unknown: no test images" if accuracy != accuracy else f"{accuracy:.2%}"
        table.add_row(str(al_round), str(labelled[al_round]), known)
    Console().print(table)
    averaged = min(LAST_FL_ROUNDS, int(metrics["fl_round"].max()))
    print(f"(accuracy: mean of the last {averaged} FL rounds of each AL round)")
    if problem := divergence(metrics):
        print(problem, file=sys.stderr)
    print(f"run folder: {result.folder}")


def print_accuracy(curves: pd.DataFrame, title: str) -> None:
    """Print `mean_curves` with the deviation over seeds, and how many they are."""

    def cell(seeds: pd.Series) -> str:
        return f"{seeds.mean():.1f}" + (f" ±{seeds.std():.1f}" if len(seeds) > 1 else "")

    means, axis = mean_curves(curves), axis_of(curves)
    cells = curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc=cell)
    # As text: names of datasets may be paths, with brackets in them.
    table = Table(
        title=Text(title), caption="accuracy: mean over the last FL rounds of an AL round, five at most"
    )
    table.add_column("strategy")
    for column in ("seeds", *axis.headings(axis.by_round(curves)[means.columns].to_numpy())):
        table.add_column(column, justify="right")
    for name, row in cells.reindex(means.index).fillna("").iterrows():
        seeds = curves.loc[curves["strategy"] == name, "seed"].nunique()
        table.add_row(str(name), str(seeds), *row)
    print_whole(table)


def print_section(title: str, frame: pd.DataFrame, note: str) -> None:
    """Print a section of a benchmark's verdict: its table, if it has rows, and what is to be said of it."""
    if len(frame):
        table = Table(title=Text(title), box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in frame.columns:
            table.add_column(str(column), justify="left" if column == frame.columns[0] else "right")
        for row in frame.itertuples(index=False):
            table.add_row(*map(Text, row))
        print_whole(table)
    Console().print(Text(note if len(frame) else f"{title}: {note}"))


def print_paper_table(frame: pd.DataFrame, title: str) -> None:
    """Print a table of `fedactive paper show`, one for each dataset, without the rows that have no runs.

    If none has, the paper's numbers are shown.
    """
    made = frame[frame["seeds"] > 0] if "seeds" in frame.columns else frame  # who beats whom has no such rows
    shown = made if len(made) else frame
    if "dataset" not in shown.columns:
        print_rows(shown, title)
    else:
        Console().print(Text(title))
        for dataset, part in shown.groupby("dataset", sort=False):
            print_rows(part.drop(columns="dataset"), str(dataset))
    if 0 < len(made) < len(frame):
        print(f"({len(frame) - len(made)} rows have no runs: not shown here, but in the file that -o writes)")


def print_rows(frame: pd.DataFrame, title: str) -> None:
    """Print rows of a paper's table, narrower than as CSV."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown = join_mean_and_spread(frame) if "ours" in frame.columns else frame
    for column in shown.columns:
        table.add_column(str(column), justify="right" if is_numeric_dtype(shown[column]) else "left")
    for row in shown.itertuples(index=False):
        table.add_row(*("" if pd.isna(v) else f"{v:.2f}" if isinstance(v, float) else str(v) for v in row))
    print_whole(table)


def join_mean_and_spread(frame: pd.DataFrame) -> pd.DataFrame:
    digits = 3 if "measure" in frame.columns else 2  # EMD is printed with three

    def number(value: float, sign: str = "") -> str:
        return "" if pd.isna(value) else f"{sign}{value:.{digits}f}"

    shown = frame.drop(columns=["std", "low", "high", "note", "difference", "inside"]).assign(
        paper=frame["paper"].map(number),
        ours=frame["ours"].map(number) + frame["std"].map(lambda spread: number(spread, " ±")),
        diff=frame["difference"].map(number),
        inside=frame["inside"].map({True: "yes", False: "no"}),
    )
    return shown.rename(columns={"labelled_percent": "%"})
