"""TensorBoard: an event file in the run folder, shown by `tensorboard --logdir runs`."""

from __future__ import annotations

from typing import final

from fedactive.experiment import Experiment
from fedactive.laboratory.tracker import Tracker, register


@final
@register
class TensorBoard(Tracker):
    name = "tensorboard"
    summary = "event files in the run folder, for `tensorboard --logdir runs`"
    package = "tensorboard"

    def open(self, experiment: Experiment, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What came after the last checkpoint of a run that was killed is repeated.
        self.writer = SummaryWriter(str(experiment.folder / "tensorboard"), purge_step=step + 1)

    def log(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def end(self) -> None:
        self.writer.close()
