"""Distillation from the global model on labelled images (Hinton et al., 2015): IFAL's model d is made so.

    ℓ = λ·CE(z, y) + (1 - λ)·T²·KL(softmax(z_g / T) ‖ softmax(z / T))

T² keeps the gradients of both terms of one size, whatever the temperature T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor
from torch.nn import functional as F

from fedactive.federated.objective import Labelled, Objective, register
from fedactive.options import option


@final
@register
@dataclass(frozen=True)
class Distillation(Objective):
    name = "distillation"
    summary = "cross entropy, and nearness to the global model's softened answers on labelled images"
    paper = "Hinton et al., 2015; as in IFAL, IJCAI 2025"

    temperature: float = option(4.0, "T of both softmaxes", low=0.1, high=100)
    share: float = option(0.1, "λ: how much cross entropy counts", low=0, high=1)

    needs_global = True

    def losses(self, known: Labelled) -> Tensor:
        assert known.global_logits is not None  # it is needed, so it is there
        own = F.cross_entropy(known.logits, known.labels, reduction="none")
        softened = (known.global_logits / self.temperature, known.logits / self.temperature)
        return self.share * own + (1 - self.share) * self.temperature**2 * divergence(*softened)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return KL(softmax(p) ‖ softmax(q)) of each row of logits."""
    log_p, log_q = p.log_softmax(-1), q.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)
