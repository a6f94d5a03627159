"""Cross entropy, the paper's:  ℓ = -log softmax(z)_y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.objective import Labelled, Objective, register


@final
@register
@dataclass(frozen=True)
class CrossEntropy(Objective):
    name = "cross_entropy"
    summary = "cross entropy of the labels"
    paper = "as in McMahan et al., AISTATS 2017"

    def losses(self, known: Labelled) -> Tensor:
        return F.cross_entropy(known.logits, known.labels, reduction="none")
