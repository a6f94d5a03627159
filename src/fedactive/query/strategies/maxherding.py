"""MaxHerding (Bae et al., ECCV 2024): samples that make every sample similar to a labelled one.

    next = argmax_x Σ_n max(0, k(x_n, x) - max_{l in L} k(x_n, x_l))    k(a, b) = exp(-‖a - b‖²/σ²)

over all samples x_n, labelled or not. It is ProbCover with a soft neighbourhood. What a sample adds can only
shrink when others are chosen. So the sum is computed anew only for the few that promise most, until one of
them is better than all others ever were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.options import option
from fedactive.query.embedding_strategy import EmbeddingStrategy
from fedactive.query.kernels import squared_distances
from fedactive.query.strategy import Selection, register

AT_A_TIME = 32


@final
@register
@dataclass(frozen=True)
class MaxHerding(EmbeddingStrategy):
    name = "maxherding"
    summary = "samples that bring every sample close to a labelled one; for few labels"
    paper = "Bae et al., ECCV 2024"

    sigma: float = option(1.0, "width of the kernel on embeddings of length 1", low=0.01, high=100)

    def choose_of(
        self, unlabelled: Tensor, labelled: Tensor, classes: int, count: int, rng: torch.Generator
    ) -> Selection:
        shuffle = torch.randperm(len(unlabelled), generator=rng).to(unlabelled.device)  # ties: by the seed
        x = unlabelled[shuffle]
        similarity = self.kernel(x, torch.cat([x, labelled]))
        known = self.kernel(labelled, torch.cat([x, labelled]))
        best = torch.cat([known, torch.zeros_like(similarity[:1])]).amax(
            0
        )  # of each sample, to a labelled one
        chosen, gains = herd(similarity, best, count)
        return Selection(shuffle[chosen], gains)

    def kernel(self, a: Tensor, b: Tensor) -> Tensor:
        return squared_distances(a, b).div_(-(self.sigma**2)).exp_()


def herd(similarity: Tensor, best: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Choose greedily among the rows of `similarity`; return positions and what each adds."""
    promise = torch.cat([(part - best).clamp_min_(0).sum(1) for part in similarity.split(256)])
    chosen = torch.empty(count, dtype=torch.long, device=best.device)
    gains = torch.empty(count, device=best.device)
    for step in range(count):
        while True:
            few = promise.topk(min(AT_A_TIME + 1, len(promise)))
            tried = few.indices[:AT_A_TIME]
            promise[tried] = torch.where(
                promise[tried] < 0, -1.0, (similarity[tried] - best).clamp_min_(0).sum(1)
            )
            first = tried[promise[tried].argmax()]
            if len(few.values) <= AT_A_TIME or promise[first] >= few.values[-1]:
                break
        chosen[step], gains[step] = first, promise[first]
        best = torch.maximum(best, similarity[first])
        promise[first] = -1
    return chosen, gains
