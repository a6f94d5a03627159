"""The progress of a run as a file in its folder, progress.json, for other processes to read."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fedactive.errors import RunError
from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment
from fedactive.files import write_json
from fedactive.progress import Callback

SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True)
class Milestone:
    """How far a run has got."""

    fl_rounds: int  # done, over all AL rounds
    al_round: int = 0  # of the last evaluation; 0 before the first one
    accuracy: float | None = None  # its test accuracy


class ProgressFile(Callback):
    """Writes the file once a second and after each AL round."""

    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None:
        self.experiment = experiment
        self.milestone = Milestone(fl_rounds_done)
        self.write()

    def on_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None:
        per_al_round = self.experiment.fl_rounds
        done = (al_round - 1) * per_al_round + fl_round + 1
        self.milestone = Milestone(done, al_round, evaluation.accuracy)
        if fl_round + 1 == per_al_round or time.monotonic() >= self.written + SECONDS_BETWEEN_WRITES:
            self.write()

    def end(self) -> None:
        self.write()

    def write(self) -> None:
        self.written = time.monotonic()
        with suppress(OSError, RunError):  # on a full disk the checkpoint ends the run, not this file
            write_json(progress_path(self.experiment), asdict(self.milestone))


def progress_path(experiment: Experiment) -> Path:
    return experiment.folder / "progress.json"


def read_milestone(experiment: Experiment) -> Milestone | None:
    """Read how far the run has got; None if its file is not there yet."""
    try:
        return Milestone(**json.loads(progress_path(experiment).read_text()))
    except (OSError, ValueError, TypeError):  # missing, or damaged by hand
        return None
