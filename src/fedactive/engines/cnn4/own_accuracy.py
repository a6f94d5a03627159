"""How well each client knows its own samples, which is when local-only training ends: all clients at once.

The forward kernels of training serve here too. Where nobody counts as present, BatchNorm takes its running
statistics and leaves them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from fedactive.engines.plan import Row
from fedactive.engines.stack import record
from fedactive.federated.local_sgd import LocalJob

if TYPE_CHECKING:
    from fedactive.engines.cnn4.stack import CNN4Stack


@final
class OwnAccuracy:
    def __init__(self, stack: CNN4Stack) -> None:
        self.stack = stack
        self.right = torch.zeros(stack.width, device=stack.images.device)
        self.graph = record(self.count) if stack.images.is_cuda else None

    def __call__(self, rows: Tensor) -> Tensor:
        """The share of right answers by client, of those that are still training."""
        self.right.zero_()
        for row in rows:
            self.stack.row.copy_(row)
            if self.graph:
                self.graph.replay()
            else:
                self.count()
        return self.right / (rows[..., : self.stack.recipe.batch_size] >= 0).sum((0, 2)).clamp_min(1)

    def count(self) -> None:
        stack = self.stack
        stack.fetch()
        asked = stack.present.clone()
        stack.present.zero_()
        stack.embed()
        z = stack.x[4].float().movedim(-1, 2).flatten(2)  # (clients, batch, channels and places)
        weight, bias = (stack.layout.view(stack.parameters, f"head.{name}") for name in ("weight", "bias"))
        logits = torch.baddbmm(bias[:, None], z, weight.mT)
        self.right += ((logits.argmax(2) == stack.targets) & asked).sum(1)


def rows_of(own: Mapping[int, LocalJob], stack: CNN4Stack) -> Tensor:
    """The samples of these clients as a plan, (steps, clients, ...), each once and not mirrored."""
    batch, width = stack.recipe.batch_size, stack.width
    columns = []
    for values in ([2 * job.samples for job in own.values()], [job.labels for job in own.values()]):
        padded = pad_sequence(values, batch_first=True, padding_value=-1)
        padded = F.pad(padded, (0, -padded.shape[1] % batch), value=-1)
        columns.append(padded.view(len(own), -1, batch).movedim(1, 0))
    rows = torch.full((len(columns[0]), width, Row.length(batch)), -1)
    rows[:, list(own), :-1] = torch.cat(columns, 2)
    return rows.to(stack.images.device)
