"""Strategies that look only at where samples lie, not at what a model thinks of them.

They need no label, so they can choose the very first ones, and are at their best while labels are few.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.cores import each_on_a_core
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection


@dataclass(frozen=True)
class EmbeddingStrategy(BatchedStrategy, OneModelStrategy):
    """Abstract: a strategy on embeddings of length 1."""

    needs_model = False

    @abstractmethod
    def choose_of(
        self, unlabelled: Tensor, labelled: Tensor, classes: int, count: int, rng: torch.Generator
    ) -> Selection:
        """Choose `count` of the unlabelled samples: at least one, at most all."""

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        def choose_one(unlabelled: Tensor, labelled: Tensor, *rest: Any) -> Selection:
            return self.choose_of(F.normalize(unlabelled), F.normalize(labelled), *rest)

        unlabelled = [pool.unlabelled(self.selector).embeddings for pool in pools]
        labelled = [pool.labelled(self.selector).embeddings for pool in pools]
        classes = [pool.classes for pool in pools]
        return each_on_a_core(choose_one, unlabelled, labelled, classes, counts, rngs)
