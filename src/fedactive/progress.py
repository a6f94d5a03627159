"""Who is told how a run goes: the terminal, a file in the run folder, trackers, callbacks of your own.

class Watch(fedactive.Callback):
    def on_round(self, al_round, labelled, accuracy):
        print(f"{labelled} labels: {accuracy:.1%}")

fedactive.run(experiment, callbacks=[Watch()])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment


class Callback:
    """What a run calls; every method may be left out. FL rounds are counted from 0, AL rounds from 1.

    Before all else a run reads image files, and with a backbone it embeds images, of which `done` are done;
    `end_reading` and `end_embedding` are called also after an error, as `end` is. A run that is resumed
    repeats what came after its last checkpoint.
    """

    def on_reading(self, done: int, total: int) -> None: ...
    def end_reading(self) -> None: ...
    def on_embedding(self, done: int, total: int) -> None: ...
    def end_embedding(self) -> None: ...
    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None: ...
    def on_query(self, al_round: int) -> None: ...
    def on_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None: ...
    def on_round(self, al_round: int, labelled: int, accuracy: float) -> None: ...
    def end(self) -> None: ...


class Silent(Callback):
    """Shows nothing."""


@final
class Several(Callback):
    """Tells several listeners, in this order."""

    def __init__(self, listeners: Sequence[Callback]) -> None:
        self.listeners = listeners

    def on_reading(self, done: int, total: int) -> None:
        for listener in self.listeners:
            listener.on_reading(done, total)

    def end_reading(self) -> None:
        for listener in self.listeners:
            listener.end_reading()

    def on_embedding(self, done: int, total: int) -> None:
        for listener in self.listeners:
            listener.on_embedding(done, total)

    def end_embedding(self) -> None:
        for listener in self.listeners:
            listener.end_embedding()

    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None:
        for listener in self.listeners:
            listener.begin(experiment, fl_rounds_done)

    def on_query(self, al_round: int) -> None:
        for listener in self.listeners:
            listener.on_query(al_round)

    def on_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None:
        for listener in self.listeners:
            listener.on_evaluation(al_round, fl_round, evaluation)

    def on_round(self, al_round: int, labelled: int, accuracy: float) -> None:
        for listener in self.listeners:
            listener.on_round(al_round, labelled, accuracy)

    def end(self) -> None:
        for listener in self.listeners:
            listener.end()
