"""The accuracy of all clients on their own samples at once; it decides when local-only training ends.

The forward kernels of training are used here too. If no row is marked as present, BatchNorm uses its running
statistics and does not change them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.engines.plan import plan_steps
from fedactive.engines.stack import CROSS_ENTROPY, record
from fedactive.federated.batches import steps_per_epoch
from fedactive.federated.local_sgd import LocalJob

if TYPE_CHECKING:
    from fedactive.engines.kernel_stack import KernelStack


@final
class OwnAccuracy:
    """Measures the accuracy of a stack's clients. `rows` are the samples of the current jobs."""

    rows: Tensor

    def __init__(self, stack: KernelStack) -> None:
        self.stack = stack
        self.right = torch.zeros(stack.width, device=stack.images.device)
        self.count_batch = record(self.count, stack.images.device)

    def begin(self, jobs: Sequence[LocalJob]) -> None:
        """Plan one epoch over the samples of these jobs, without steps and augmentation, in any order."""
        stack, batch = self.stack, self.stack.recipe.batch_size
        still = [
            replace(
                job,
                epochs=1,
                rates=(0.0,) * steps_per_epoch(len(job.samples), batch),
                objective=CROSS_ENTROPY,
            )
            for job in jobs
        ]
        recipe = replace(stack.recipe, augment="none")
        rows = plan_steps(still, stack.width, recipe, stack.images.device)[0]
        self.rows = F.pad(rows, (0, stack.row.shape[1] - rows.shape[-1]))  # keys, which nothing reads

    def __call__(self) -> Tensor:
        """Return the share of right answers of each client that is still training."""
        self.right.zero_()
        for row in self.rows:
            self.stack.row.copy_(row)
            self.count_batch()
        codes = self.rows[..., 1 : 1 + self.stack.recipe.batch_size]
        return self.right / (codes >= 0).sum((0, 2)).clamp_min(1)

    def count(self) -> None:
        stack = self.stack
        stack.fetch(varied=False)
        asked = stack.present.clone()
        stack.present.zero_()
        z = stack.embed()
        weight, bias = (stack.layout.view(stack.parameters, f"head.{name}") for name in ("weight", "bias"))
        logits = torch.baddbmm(bias[:, None], z, weight.mT)
        self.right += ((logits.argmax(2) == stack.targets) & asked).sum(1)
