"""Core-set (Sener & Savarese, ICLR 2018): the samples farthest from the labelled ones, by embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.batched import k_centre_of_all
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection, register


@final
@register
@dataclass(frozen=True)
class Coreset(BatchedStrategy, OneModelStrategy):
    name = "coreset"
    summary = "greedy k-centre: the samples farthest from what is labelled and chosen"
    paper = "Sener & Savarese, ICLR 2018"

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        unlabelled = [pool.unlabelled(self.selector).embeddings for pool in pools]
        labelled = [pool.labelled(self.selector).embeddings for pool in pools]
        return [Selection(*centres) for centres in k_centre_of_all(unlabelled, labelled, counts, rngs)]
