"""`fedactive demo`: LoGo, Entropy and Random side by side on a dataset that needs no download."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from rich.console import Console

from fedactive.analysis.curve_pictures import plot_learning_curves
from fedactive.analysis.curves import learning_curves
from fedactive.cli.tables import print_accuracy
from fedactive.experiment import Experiment
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


def demo(runs_dir: Path) -> None:
    """Run the demo, print the table, draw the picture. Every demo has a new folder, so nothing is skipped."""
    console = Console()
    folder = runs_dir / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    experiments = demo_experiments(folder)
    first = experiments[0]
    console.print(
        f"Digits (1,797 images of 8x8) held by {first.clients} clients that see different classes "
        f"(alpha {first.alpha}).\nEach asks for a few labels in each of {first.rounds} rounds; "
        f"between rounds they train one model together.\n"
    )
    begun = time.monotonic()
    results = run_all(experiments, make_progress())
    curves = learning_curves([result.folder for result in results])

    print_accuracy(curves, "Test accuracy (%) by percent labelled, mean ± deviation over seeds")

    picture = folder / "learning-curves.png"
    plot_learning_curves(curves, "Digits, 5 clients, alpha 0.1", picture)
    console.print(f"{len(results)} runs in {time.monotonic() - begun:.0f} s")
    console.print(f"learning curves: {picture}", soft_wrap=True)
    console.print(f"run folders:     {folder}", soft_wrap=True)
