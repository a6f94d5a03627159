"""What all trackers do alike: count the steps, and name the numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from fedactive.errors import UserError
from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment
from fedactive.progress import Callback
from fedactive.record.schema import measure
from fedactive.registry import TRACKERS

register = TRACKERS.register


class Tracker(Callback):
    """Abstract. It is told the metrics of every evaluation by FL round, and of every AL round by labels.

    A run that is resumed goes on in what its tracker has of it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]  # that must be installed

    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None:
        self.experiment = experiment
        try:
            self.open(experiment, fl_rounds_done)
        except ModuleNotFoundError as error:
            raise UserError(f"{error.name} is missing: pip install {self.package} brings it") from None

    def on_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None:
        step = (al_round - 1) * self.experiment.fl_rounds + fl_round + 1
        measured = {name: value for name, value in measure(evaluation).items() if isinstance(value, float)}
        self.log({f"test/{name}": value for name, value in measured.items()}, step)

    def on_round(self, al_round: int, labelled: int, accuracy: float) -> None:
        step = al_round * self.experiment.fl_rounds
        self.log({"al_round/accuracy": accuracy, "al_round/labelled": float(labelled)}, step)

    @abstractmethod
    def open(self, experiment: Experiment, step: int) -> None:
        """Begin, or go on after this many FL rounds."""

    @abstractmethod
    def log(self, numbers: dict[str, float], step: int) -> None:
        """Note these numbers of an FL round, counted over all AL rounds."""


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """List the settings as plain values."""
    plain = (bool, int, float, str)
    values = {name: value for name, value in vars(experiment).items() if name != "described"}
    return {name: value if isinstance(value, plain) else str(value) for name, value in values.items()}
