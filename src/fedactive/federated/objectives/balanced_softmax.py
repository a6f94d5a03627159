"""Balanced softmax: cross entropy of logits that are moved by how often the client has each class.

    ℓ = -log softmax(z + log n)_y

So a client that has mostly cats need not teach its model that most images are cats. A class of which it has
no label takes no part in the softmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.objective import Labelled, Objective, register

ABSENT = -1e4  # for log 0: its exponential is 0, and the loss stays finite


@final
@register
@dataclass(frozen=True)
class BalancedSoftmax(Objective):
    name = "balanced_softmax"
    summary = "cross entropy of z + log n, which allows for a client's unequal classes"
    paper = "Ren et al., NeurIPS 2020"

    def losses(self, known: Labelled) -> Tensor:
        return F.cross_entropy(adjusted(known.logits, known.counts), known.labels, reduction="none")


def adjusted(logits: Tensor, counts: Tensor) -> Tensor:
    """Return z + log n; a class without labels gets a value that no softmax sees."""
    return (logits + counts.clamp_min(1).log()).masked_fill(counts == 0, ABSENT)
