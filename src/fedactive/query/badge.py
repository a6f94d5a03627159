"""BADGE (Ash et al., ICLR 2020): diverse samples with long gradients.

k-means++ seeding on the gradient embeddings g = z ⊗ (1[ŷ = c] - p_c) of the last layer (Eq. 5 of LoGo, all
classes): long gradients are uncertain samples, and seeding by D² keeps the chosen ones apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.kernels import gradient_seeding
from fedactive.query.pool import Pool
from fedactive.query.strategy import OneModelStrategy, Selection, register


@final
@register
@dataclass(frozen=True)
class Badge(OneModelStrategy):
    name = "badge"
    summary = "k-means++ seeding in gradient space: uncertain and diverse"
    paper = "Ash et al., ICLR 2020"

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        outputs = pool.unlabelled(self.selector)
        count = min(budget, len(pool))
        chosen, distance = gradient_seeding(outputs.embeddings[None], outputs.residual[None], count, rng)
        return Selection(chosen, distance)
