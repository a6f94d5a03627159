"""LoGo (Kim, Bae, Song & Yun, CVPR 2023): diverse for the client, balanced for the federation.

Macro step (Eq. 5, 6): k-means with B clusters in the *local-only* model's hallucinated gradient space.
Micro step (Eq. 7): from each cluster the most wanted sample by the *global* model, with entropy as the paper
has it or with any other scoring strategy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.query.kernels import kmeans, top
from fedactive.query.pool import Pool
from fedactive.query.strategy import (
    STRATEGIES,
    ScoringNames,
    ScoringStrategy,
    Selection,
    Strategy,
    parameter,
    register,
)


@final
@register
@dataclass(frozen=True)
class LoGo(Strategy):
    name = "logo"
    summary = "clusters by the local-only model, the most uncertain of each by the global model"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    micro: str = parameter("entropy", ScoringNames(), "the scoring strategy of the micro step")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        budget = min(budget, len(pool))
        if budget == 0:
            return Selection(torch.zeros(0, dtype=torch.long), torch.zeros(0))
        cluster = kmeans(pool.unlabelled("local").hallucinated_gradient, budget, rng)
        scoring = STRATEGIES[self.micro]
        assert issubclass(scoring, ScoringStrategy)
        score = scoring.score(pool.unlabelled("global"))
        chosen = best_of_each(cluster, score, budget, rng)
        return Selection(chosen, score[chosen], {"cluster": cluster})


def best_of_each(cluster: Tensor, score: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """The best of every cluster; while these are fewer than `count`, the second best of each, and so on."""
    by_score = top(score, len(score), rng)
    by_cluster = by_score[cluster[by_score].argsort(stable=True)]
    size = torch.bincount(cluster)
    first = size.cumsum(0) - size
    place = torch.empty_like(cluster)  # of each sample within its own cluster
    place[by_cluster] = torch.arange(len(cluster), device=cluster.device) - first[cluster[by_cluster]]
    return by_score[place[by_score].argsort(stable=True)[:count]]
