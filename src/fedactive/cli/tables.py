"""Tables in the terminal."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedactive.analysis.curves import labelled_by_round, mean_curves, percents


def print_whole(table: Table) -> None:
    """No name is cut, be it for a pipe or a narrow terminal, which may break lines itself."""
    console = Console()
    console.width = max(
        console.width, console.measure(table, options=console.options.update(width=1000)).maximum
    )
    console.print(table)


def print_accuracy(curves: pd.DataFrame, title: str) -> None:
    """Print `mean_curves` with the deviation over seeds, and how many they are."""

    def cell(seeds: pd.Series) -> str:
        return f"{seeds.mean():.1f}" + (f" ±{seeds.std():.1f}" if len(seeds) > 1 else "")

    means = mean_curves(curves)
    cells = curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc=cell)
    # As text: names of datasets may be paths, with brackets in them.
    table = Table(
        title=Text(title), caption="accuracy: mean over the last FL rounds of an AL round, five at most"
    )
    table.add_column("strategy")
    table.add_column("seeds", justify="right")
    for percent in percents(labelled_by_round(curves)[means.columns].to_numpy()):
        table.add_column(percent, justify="right")
    for name, row in cells.reindex(means.index).fillna("").iterrows():
        seeds = curves.loc[curves["strategy"] == name, "seed"].nunique()
        table.add_row(str(name), str(seeds), *row)
    print_whole(table)
