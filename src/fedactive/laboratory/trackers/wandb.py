"""Weights & Biases: a run of the project `fedactive`, online or, with WANDB_MODE=offline, on disk."""

from __future__ import annotations

from typing import final

from fedactive.experiment import Experiment
from fedactive.laboratory.tracker import Tracker, register, settings_of


@final
@register
class WeightsAndBiases(Tracker):
    name = "wandb"
    summary = "Weights & Biases; WANDB_PROJECT and WANDB_MODE as its documents say"
    package = "wandb"

    def open(self, experiment: Experiment, step: int) -> None:
        import wandb

        self.run = wandb.init(
            project=wandb.Settings().project or "fedactive",
            name=experiment.name,
            id=experiment.hash,  # the same run, when it is resumed
            resume="allow",
            config=settings_of(experiment),
            dir=str(experiment.folder),
            reinit="create_new",  # several runs may go on in one process
        )

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.run.log(numbers, step=step)

    def end(self) -> None:
        self.run.finish()
