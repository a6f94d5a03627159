"""What the loop reports while it runs; `laboratory` shows it on terminals, in logs and in files."""

from __future__ import annotations

from fedactive.experiment import Experiment


class Progress:
    """The listener that a run reports to. FL rounds are counted from 0.

    Before all else a run with a backbone embeds images, of which `done` are done; `end_embedding` is called
    also after an error.
    """

    def on_embedding(self, done: int, total: int) -> None: ...
    def end_embedding(self) -> None: ...
    def begin(self, experiment: Experiment, fl_rounds_done: int) -> None: ...
    def on_query(self, al_round: int) -> None: ...
    def on_evaluation(self, al_round: int, fl_round: int, accuracy: float) -> None: ...
    def end(self) -> None: ...


class Silent(Progress):
    """Shows nothing."""
