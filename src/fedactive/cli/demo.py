"""`fedactive demo`: LoGo, Entropy and Random side by side on a dataset that needs no download."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from fedactive.analysis.curve_pictures import plot_learning_curves
from fedactive.analysis.curves import learning_curves
from fedactive.analysis.report import write_report
from fedactive.cli.browser import show_in_browser
from fedactive.cli.tables import print_accuracy
from fedactive.experiment import Experiment
from fedactive.files import quote
from fedactive.laboratory.progress import make_progress
from fedactive.laboratory.run import run_all
from fedactive.sweep.grid import expand

GRID = {
    "seed": [1, 2],
    "strategy": ["logo", "entropy", "random"],
    "selector": ["global", "local"],  # of entropy; the others leave no choice
    "dataset": "digits",
    "clients": 5,
    "alpha": 0.1,
    "augment": "none",  # a mirrored digit is not a digit
    "rounds": 5,
    "fl_rounds": 12,
}


def demo_experiments(runs_dir: Path) -> list[Experiment]:
    return expand(GRID | {"runs_dir": runs_dir})


def demo(runs_dir: Path, open_report: bool = False) -> None:
    """Run the demo, print the table, draw the picture. Every demo has a new folder, so nothing is skipped."""
    console = Console()
    folder = runs_dir / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    experiments = demo_experiments(folder)
    first = experiments[0]
    console.print(
        f"{first.clients} clients hold digits (1,797 images of 8x8), each mostly other classes.\n"
        f"In each of {first.rounds} rounds each asks for a few labels; then they train one model\n"
        f"together. Three ways to choose what to label: LoGo, Entropy and Random.\n",
        highlight=False,
    )
    begun = time.monotonic()
    results = run_all(experiments, make_progress())
    curves = learning_curves([result.folder for result in results])

    print_accuracy(curves, "Test accuracy (%) by percent labelled, mean ± deviation over seeds")
    console.print(
        "Each row is a way to choose what to label. Random asks no model, Entropy the\n"
        "global model or each client's own, LoGo both. Better is higher with fewer labels.\n"
        "Differences no larger than the deviations (±) may be chance: these are two seeds.\n",
        highlight=False,
    )

    picture, report = folder / "learning-curves.png", folder / "report.html"
    plot_learning_curves(curves, "Digits, 5 clients, alpha 0.1", picture)
    write_report([result.folder for result in results], report)
    say = partial(console.print, soft_wrap=True, highlight=False)
    say(f"{len(results)} runs in {time.monotonic() - begun:.0f} s")
    say(f"learning curves: {picture}")
    say(f"report:          {report}")
    say(f"run folders:     {folder}\n")
    print_what_to_try(say, report)
    if open_report:
        show_in_browser(report)


def print_what_to_try(say: Callable[[str], None], report: Path) -> None:
    fedactive = command()
    compare = f"{fedactive} compare --dataset digits --augment none"
    say("What to try next:")
    say(f"  look at the report          open {quote(report)} in a browser")
    say(f"  compare other strategies    {compare} --strategy badge,logo")
    say(f"  write a strategy            {fedactive} new strategy mine")
    say(f"  see what there is           {fedactive} strategies (or datasets, models, algorithms)")
    say(f"  get a larger dataset        {fedactive} data get cifar10")


def command() -> str:
    """Return how this program is called, to be copied: `make demo` does not put it on the PATH."""
    called = Path(sys.argv[0])
    return "fedactive" if shutil.which("fedactive") or called.name != "fedactive" else os.path.relpath(called)
