"""The two models' selections merged by rank (Sec. 5.3 of LoGo, "Ens. Rank").

Each model makes its own query of B samples; a sample's weight is Σ 1/(20 + rank) over the lists it is in, so
that those in both come first (Cormack et al., SIGIR 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, make_strategy, parameter, register

OFFSET = 20


@final
@register
@dataclass(frozen=True)
class EnsembleRank(Strategy):
    name = "ensemble_rank"
    summary = "the queries of both models by entropy or BADGE, merged by rank"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    base: str = parameter("entropy", ("entropy", "badge"), "the strategy of both queries")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        weight = torch.zeros(len(pool))
        for model in ("global", "local"):
            ranked = make_strategy(self.base, model).select(pool, budget, rng).indices.cpu()
            weight[ranked] += 1 / (OFFSET + torch.arange(1, len(ranked) + 1))
        chosen = top(weight, budget, rng)
        return Selection(chosen, weight[chosen])
