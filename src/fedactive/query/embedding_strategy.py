"""Strategies that look only at where samples lie, not at what a model thinks of them.

They need no label, so they can choose the very first ones, and are at their best while labels are few.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection


@dataclass(frozen=True)
class EmbeddingStrategy(BatchedStrategy, OneModelStrategy):
    """Abstract: a strategy on embeddings of length 1."""

    @abstractmethod
    def choose_of(
        self, unlabelled: Tensor, labelled: Tensor, classes: int, count: int, rng: torch.Generator
    ) -> Selection:
        """Choose `count` of the unlabelled samples: at least one, at most all."""

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        chosen = []
        for pool, count, rng in zip(pools, counts, rngs, strict=True):
            views = pool.unlabelled(self.selector), pool.labelled(self.selector)
            unlabelled, labelled = (F.normalize(view.embeddings) for view in views)
            chosen.append(self.choose_of(unlabelled, labelled, pool.classes, count, rng))
        return chosen
