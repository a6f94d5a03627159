"""What a run has come to, in the terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from fedactive.laboratory.run import Result
from fedactive.record.state import LAST_FL_ROUNDS, divergence


def print_result(result: Result) -> None:
    """Print the accuracy by AL round, and where the run folder is."""
    metrics = result.metrics
    labelled = metrics.groupby("al_round")["labelled"].first().to_dict()
    table = Table("AL round", "labelled", "test accuracy")
    for al_round, accuracy in result.accuracy.items():
        table.add_row(str(al_round), str(labelled[al_round]), f"{accuracy:.2%}")
    Console().print(table)
    averaged = min(LAST_FL_ROUNDS, int(metrics["fl_round"].max()))
    print(f"(accuracy: mean of the last {averaged} FL rounds of each AL round)")
    if problem := divergence(metrics):
        print(problem, file=sys.stderr)
    print(f"run folder: {result.folder}")
