"""The two models' selections merged by rank (Sec. 6.3 of LoGo, "Ens. Rank").

Each model makes its own query of B samples; a sample's weight is Σ 1/(20 + rank) over the lists it is in, so
that those in both come first (Cormack et al., SIGIR 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from fedactive.options import option
from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, Selection, make_strategy, register

OFFSET = 20


@final
@register
@dataclass(frozen=True)
class EnsembleRank(BatchedStrategy):
    name = "ensemble_rank"
    summary = "the queries of both models by entropy or BADGE, merged by rank"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    base: str = option("entropy", "the strategy of both queries", choices=("entropy", "badge"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        weights = [torch.zeros(len(pool)) for pool in pools]
        for model in ("global", "local"):
            queries = make_strategy(self.base, model).select_all(pools, max(counts), rngs)
            for weight, query in zip(weights, queries, strict=True):
                weight[query.indices.cpu()] += 1 / (OFFSET + torch.arange(1, len(query.indices) + 1))
        chosen = list(map(top, weights, counts, rngs))
        return [Selection(best, weight[best]) for best, weight in zip(chosen, weights, strict=True)]
