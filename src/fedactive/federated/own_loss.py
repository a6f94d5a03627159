"""Early stop by the loss: a job ends when its objective has not become lower for some epochs.

The loss is that on all of the job's own samples after an epoch: not mirrored, in evaluation mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedactive.federated.lesson import count_classes
from fedactive.federated.objective import Labelled

if TYPE_CHECKING:
    from fedactive.federated.local_sgd import LocalJob


class OwnLoss:
    """Follows the loss of one job; on its device, so that no epoch waits for a number."""

    def __init__(self, job: LocalJob, logits: Tensor, taught: Tensor | None) -> None:
        """`logits` are those of the beginning; `taught` is what the teacher says, if the objective asks."""
        self.job, self.taught, device = job, taught, logits.device
        self.labels = job.labels.to(device)
        self.counts = count_classes(job.labels, logits.shape[1]).to(device)
        self.fl_round = torch.tensor(float(job.fl_round), device=device)
        self.lowest = torch.full((), torch.inf, device=device)
        self.epochs = torch.zeros((), dtype=torch.long, device=device)  # since it was lowest
        self.is_over(logits)

    @torch.no_grad()
    def is_over(self, logits: Tensor) -> Tensor:
        """Take in the logits after an epoch; return whether it was the last, a single boolean."""
        known = Labelled(logits, self.labels, self.counts, self.fl_round, self.taught)
        loss = self.job.objective.losses(known).mean()
        self.epochs = torch.where(loss < self.lowest, 0, self.epochs + 1)
        self.lowest = torch.minimum(self.lowest, loss.nan_to_num(torch.inf))
        return self.epochs >= self.job.patience
