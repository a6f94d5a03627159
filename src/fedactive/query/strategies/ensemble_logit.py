"""The average of the two models (Sec. 6.3 of LoGo, "Ens. Logit"): a simple way to use both.

With entropy the mean of the two softmax outputs is scored. With BADGE the two gradient embeddings are
averaged, g = ½·(z_g ⊗ q_g + z_l ⊗ q_l): a sum of two outer products, which is never built either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from fedactive.options import option
from fedactive.query.batched import gradient_seeding_of_all
from fedactive.query.kernels import top
from fedactive.query.pool import Outputs, Pool
from fedactive.query.strategy import BatchedStrategy, Selection, register


@final
@register
@dataclass(frozen=True)
class EnsembleLogit(BatchedStrategy):
    name = "ensemble_logit"
    summary = "entropy or BADGE on the average of the two models' outputs"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    base: str = option("entropy", "the strategy on the averaged outputs", choices=("entropy", "badge"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        both = [(pool.unlabelled("global"), pool.unlabelled("local")) for pool in pools]
        if self.base == "entropy":
            return list(map(most_entropy, both, counts, rngs))
        z = [torch.stack([a.embeddings, b.embeddings]) for a, b in both]
        q = [torch.stack([a.residual, b.residual]) / 2 for a, b in both]
        return [Selection(*seeds) for seeds in gradient_seeding_of_all(z, q, counts, rngs)]


def most_entropy(both: tuple[Outputs, Outputs], count: int, rng: torch.Generator) -> Selection:
    p = (both[0].probabilities + both[1].probabilities) / 2
    entropy = torch.special.entr(p).sum(1)
    chosen = top(entropy, count, rng)
    return Selection(chosen, entropy[chosen])
