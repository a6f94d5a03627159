"""FEAL's evidential loss: logits are evidence, and class probabilities follow a Dirichlet distribution.

    a = ReLU(z) + 1,  S = Σ_c a_c,  π_c = n_c / Σ_i n_i,  ã = (a - 1)·(1 - onehot(y)) + 1
    ℓ = (2 - π_y)·(ψ(S) - ψ(a_y)) + λ·[min(1, t/10)·KL(Dir(ã) ‖ Dir(1)) - (C/S)·z_y]

ψ is the digamma function, t the FL round from 0, and S in the last term a constant. The first term is the
expected cross entropy, and rare classes count more. The KL term takes evidence away from wrong classes, more
so with every FL round; the last one gives it to the right class, where ReLU alone would have no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.federated.objective import Labelled, Objective, register
from fedactive.options import option

ROUNDS_TO_FULL_WEIGHT = 10  # after so many FL rounds the KL term counts in full


@final
@register
@dataclass(frozen=True)
class Evidential(Objective):
    name = "evidential"
    summary = "logits as the evidence of a Dirichlet distribution, with rare classes counting more"
    paper = "Chen et al., CVPR 2024 (FEAL)"

    weight: float = option(0.01, "λ: how much the two terms about evidence count", low=0, high=10)

    def losses(self, known: Labelled) -> Tensor:
        z, y, n = known.logits, known.labels[:, None], known.counts
        a = z.relu() + 1
        s = a.sum(1, keepdim=True)
        expected = torch.digamma(s) - torch.digamma(a.gather(1, y))
        pi = (n / n.sum()).expand_as(z).gather(1, y)
        wrong = a.scatter(1, y, 1.0)  # ã
        less = (known.fl_round / ROUNDS_TO_FULL_WEIGHT).clamp_max(1) * from_uniform(wrong)
        more = z.shape[1] / s.detach() * z.gather(1, y)
        return ((2 - pi) * expected + self.weight * (less - more))[:, 0]


def from_uniform(a: Tensor) -> Tensor:
    """Return KL(Dir(a) ‖ Dir(1)) of each row, as a column."""
    s, classes = a.sum(1, keepdim=True), torch.full_like(a[:, :1], a.shape[1])
    constant = s.lgamma() - classes.lgamma() - a.lgamma().sum(1, keepdim=True)
    return constant + ((a - 1) * (torch.digamma(a) - torch.digamma(s))).sum(1, keepdim=True)
