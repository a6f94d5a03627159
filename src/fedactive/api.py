"""What scripts and notebooks use: run an experiment or a grid, open runs, draw them, take models out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pandas as pd

from fedactive.analysis.curve_pictures import draw_learning_curves
from fedactive.analysis.curves import accuracy_table, learning_curves
from fedactive.errors import RunError, UserError
from fedactive.experiment import Experiment
from fedactive.files import expand_home
from fedactive.laboratory.run import run as run_here
from fedactive.progress import Callback
from fedactive.record.run_tables import RunTables
from fedactive.sweep.comparison import Comparison
from fedactive.sweep.grid import expand, require_data
from fedactive.sweep.workplace import open_workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedactive.export.trained_model import TrainedModel


@final
@dataclass(frozen=True)
class Result(RunTables):
    """A run: its tables, learning curve, picture and model."""

    def curves(self) -> pd.DataFrame:
        """Return one row per AL round: `strategy, seed, al_round, labelled, labels, accuracy`."""
        return learning_curves([self.folder])

    def plot(self, title: str = "") -> Figure:
        """Draw the learning curve; a notebook shows it, and `.savefig("curve.svg")` saves it."""
        return draw_learning_curves(self.curves(), title)

    def model(self, device: str = "auto") -> TrainedModel:
        """Return the global model of the last AL round, to `predict` with."""
        from fedactive.export.trained_model import load_model  # takes a while

        return load_model(self.folder, device=device)


@final
@dataclass(frozen=True)
class Results:
    """The runs of a grid."""

    folders: tuple[Path, ...]

    def __iter__(self) -> Iterator[Result]:
        return map(Result, self.folders)

    def __len__(self) -> int:
        return len(self.folders)

    def __getitem__(self, position: int) -> Result:
        return Result(self.folders[position])

    def curves(self) -> pd.DataFrame:
        """Return one row per run and AL round: `setting, strategy, seed, al_round, labelled, accuracy`."""
        return learning_curves(self.folders)

    def table(self) -> pd.DataFrame:
        """Return the accuracy by strategy and AL round: mean, deviation and number of seeds."""
        return accuracy_table(self.curves())

    def plot(self, title: str = "") -> Figure:
        """Draw a learning curve for each strategy, in a panel for each setting; the bands span the seeds."""
        return draw_learning_curves(self.curves(), title)


def run(
    experiment: Experiment,
    progress: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    fresh: bool = False,
) -> Result:
    """Run the experiment, or the rest of it; a finished one is not run again.

    Progress is shown in the terminal or notebook; `fedactive.Silent()` shows nothing. `callbacks` are told of
    every query, evaluation and AL round. A run that other data or code began is begun
    anew if `fresh`.
    """
    return Result(run_here(experiment, progress, callbacks, fresh).folder)


def compare(*, jobs: int | None = None, on: str = "here", fresh: bool = False, **settings: Any) -> Results:
    """Run a grid: any setting of `Experiment` may be a list, and every combination is a run.

    Several runs go on at a time (`jobs`), here or on a Ray cluster (`on="ray"`). Finished runs are skipped,
    stopped ones resume. UserError names the runs that failed, when all others are done.
    """
    workplace = open_workplace(on, settings.get("device", "auto"), jobs)
    grid = expand(settings | {"device": workplace.device})
    require_data(grid, fresh)
    jobs_done = Comparison(grid, workplace).run()
    if failed := [job for job in jobs_done if job.failed]:
        first = f"{failed[0].experiment.name}: {failed[0].last_line()} (log: {failed[0].log})"
        raise UserError(f"{len(failed)} of {len(jobs_done)} runs failed; the first is {first}")
    return Results(tuple(job.experiment.folder for job in jobs_done))


def load(run: str | Path) -> Result:
    """Open a run folder."""
    folder = expand_home(run)
    if not (folder / "experiment.toml").is_file():
        raise RunError(f"{folder} is not a run folder: it has no experiment.toml")
    return Result(folder)
