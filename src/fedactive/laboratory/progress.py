"""Progress of a run: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Column

from fedactive.captions import strategy_label
from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment
from fedactive.progress import Callback

SECONDS_BETWEEN_LINES = 20.0
SECONDS_OF_SPEED = 600.0  # over which the speed is measured that estimates the time left


def caption(experiment: Experiment) -> str:
    return f"{strategy_label(vars(experiment))}, seed {experiment.seed}"


class Lines(Callback):
    """Prints a line at the end of each AL round, and one now and then during a long round."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file  # None: standard output
        self.last = time.monotonic()

    def on_reading(self, done: int, total: int) -> None:
        self.count("reading", done, total)

    def on_embedding(self, done: int, total: int) -> None:
        self.count("embedding", done, total)

    def count(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            self.say(f"{what}: {done:,} of {total:,} images")

    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None:
        self.experiment = experiment
        if fl_rounds_done:
            # This may be a new run: AL round 1 is the same for all strategies and shared between runs.
            shared = fl_rounds_done == experiment.fl_rounds
            how = "continuing from the shared AL round 1," if shared else "resuming"
            self.say(f"{caption(experiment)}: {how} after {fl_rounds_done} FL rounds")

    def on_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None:
        e = self.experiment
        last = fl_round + 1 == e.fl_rounds
        if last or time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            where = f"AL round {al_round}/{e.rounds}" + (
                "" if last else f", FL round {fl_round + 1}/{e.fl_rounds}"
            )
            self.say(f"{caption(e)}: {where}, test accuracy {evaluation.accuracy:.1%}")

    def say(self, line: str) -> None:
        print(line, file=self.file, flush=True)


def make_bars(captions: Sequence[str], console: Console) -> RichProgress:
    """Make bars in FL rounds, each with a note. On a narrow terminal bars shrink first, then texts wrap."""
    beside = 56  # columns that all but the caption needs, with a short bar

    def text() -> Column:
        return Column(no_wrap=console.width >= beside + max(map(len, captions), default=0))

    return RichProgress(
        TextColumn("{task.description}", table_column=text(), markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[note]}", table_column=text(), markup=False),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        console=console,
        speed_estimate_period=SECONDS_OF_SPEED,
    )


class Bars(Callback):
    """One bar per run, in FL rounds, with the AL round and the accuracy beside it.

    Before it another one, in images, while these are read or embedded.
    """

    def __init__(self) -> None:
        self.images: tuple[RichProgress, TaskID] | None = None

    def on_reading(self, done: int, total: int) -> None:
        self.count("reading", done, total)

    def on_embedding(self, done: int, total: int) -> None:
        self.count("embedding", done, total)

    def count(self, what: str, done: int, total: int) -> None:
        if self.images is None:
            bars = make_bars([what], Console(stderr=True))
            self.images = bars, bars.add_task(what, total=total, note="images")
            bars.start()
        bars, task = self.images
        bars.update(task, completed=done)

    def end_reading(self) -> None:
        if self.images is not None:
            self.images[0].stop()
        self.images = None

    end_embedding = end_reading

    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None:
        self.experiment = experiment
        # A new display for each run: one that is started again would draw the finished bars again.
        self.bars = make_bars([caption(experiment)], Console(stderr=True))
        total = experiment.rounds * experiment.fl_rounds
        self.task = self.bars.add_task(caption(experiment), total=total, completed=fl_rounds_done, note="")
        self.bars.start()

    def on_query(self, al_round: int) -> None:
        self.bars.update(self.task, note=f"AL {al_round}/{self.experiment.rounds}  querying …    ")

    def on_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None:
        e = self.experiment
        done = (al_round - 1) * e.fl_rounds + fl_round + 1  # not every FL round may be evaluated
        note = f"AL {al_round}/{e.rounds}  accuracy {evaluation.accuracy:5.1%}"
        self.bars.update(self.task, completed=done, note=note)

    def end(self) -> None:
        self.bars.stop()


def make_progress() -> Callback:
    """Show bars on a terminal and in a notebook, and lines in a file."""
    return Bars() if sys.stderr.isatty() or Console().is_jupyter else Lines()


@contextmanager
def handle_interrupt() -> Iterator[None]:
    """On Ctrl-C inside the block, say how to resume and end the command."""
    try:
        yield
    except KeyboardInterrupt:
        print("\nstopped; start the same command again to resume where it was", file=sys.stderr)
        sys.exit(130)
