"""Core-set (Sener & Savarese, ICLR 2018): the samples farthest from what is labelled, by embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.kernels import k_centre
from fedactive.query.pool import Pool
from fedactive.query.strategy import OneModelStrategy, Selection, register


@final
@register
@dataclass(frozen=True)
class Coreset(OneModelStrategy):
    name = "coreset"
    summary = "greedy k-centre: the samples farthest from what is labelled and chosen"
    paper = "Sener & Savarese, ICLR 2018"

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        labelled, unlabelled = pool.labelled(self.selector), pool.unlabelled(self.selector)
        chosen, distance = k_centre(unlabelled.embeddings, labelled.embeddings, min(budget, len(pool)), rng)
        return Selection(chosen, distance)
