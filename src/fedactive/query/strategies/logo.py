"""LoGo (Kim, Bae, Song & Yun, CVPR 2023): diverse for the client, balanced for the federation.

Macro step (Eq. 7, 8): k-means with B clusters in the *local-only* model's hallucinated gradient space.
Micro step (Eq. 9): from each cluster the sample with the highest score by the *global* model: the entropy, as
in the paper, or any other scoring strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from fedactive.options import option
from fedactive.query.batched_kmeans import kmeans_of_all
from fedactive.query.kernels import best_of_each
from fedactive.query.pool import Pool
from fedactive.query.strategy import (
    BatchedStrategy,
    ScoringNames,
    ScoringStrategy,
    Selection,
    register,
)
from fedactive.registry import STRATEGIES


@final
@register
@dataclass(frozen=True)
class LoGo(BatchedStrategy):
    name = "logo"
    summary = "clusters by the local-only model, the most uncertain of each by the global model"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    micro: str = option("entropy", "the scoring strategy of the micro step", choices=ScoringNames())

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        gradients = [pool.unlabelled("local").hallucinated_gradient for pool in pools]
        clusters = kmeans_of_all(gradients, counts, rngs)
        scoring = STRATEGIES[self.micro]()
        assert isinstance(scoring, ScoringStrategy)
        selections = []
        for pool, cluster, count, rng in zip(pools, clusters, counts, rngs, strict=True):
            score = scoring.score(pool.unlabelled("global"))
            chosen = best_of_each(cluster, score, count, rng)
            selections.append(Selection(chosen, score[chosen], {"cluster": cluster}))
        return selections
