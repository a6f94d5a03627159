"""`make field-demo`: a coordinator and three sites on this machine, and LoGo between them."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import typer
from rich.console import Console

from fedactive.cli.tables import print_result
from fedactive.experiment import Experiment
from fedactive.sites.coordinator import launch
from fedactive.sites.rehearsal import Rehearsal

PLAN = """
dataset = "digits"
augment = "none"      # a mirrored digit is not a digit
strategy = "logo"
rounds = 3
fl_rounds = 8

[field]
evaluate_every = 8    # once in each AL round
"""


def main() -> None:
    """Run a coordinator and three sites on this machine, each a process of its own (half a minute)."""
    console = Console()
    begun = time.monotonic()
    folder = Path("runs") / f"field-demo-{datetime.now():%Y%m%d-%H%M%S}"
    console.print(
        "A coordinator and three sites, each a process of its own, talk over TLS on loopback. Each site\n"
        "has its own key, its own digits and its own labelling page, through which a script labels.\n"
    )
    experiment = Experiment(dataset="digits", clients=3, augment="none")
    with Rehearsal(folder, experiment) as rehearsal:
        plan = rehearsal.coordinator.keep_plan(PLAN)
        result = launch.run(rehearsal.coordinator, plan)
        print_result(result)
    console.print(f"all ended; {time.monotonic() - begun:.0f} s in all, folders: {folder}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
