"""BADGE (Ash et al., ICLR 2020): diverse samples with long gradients.

k-means++ seeding on the gradient embeddings g = z ⊗ (1[ŷ = c] - p_c) of the last layer (Eq. 7 of LoGo, all
classes): long gradients are uncertain samples, and seeding by D² keeps the chosen ones apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.batched import gradient_seeding_of_all
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection, register


@final
@register
@dataclass(frozen=True)
class Badge(BatchedStrategy, OneModelStrategy):
    name = "badge"
    summary = "k-means++ seeding in gradient space: uncertain and diverse"
    paper = "Ash et al., ICLR 2020"

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        outputs = [pool.unlabelled(self.selector) for pool in pools]
        z, q = [o.embeddings[None] for o in outputs], [o.residual[None] for o in outputs]
        return [Selection(*seeds) for seeds in gradient_seeding_of_all(z, q, counts, rngs)]
