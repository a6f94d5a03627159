"""The two models averaged (Sec. 5.3 of LoGo, "Ens. Logit"): a plain way to use both.

With entropy the mean of the two softmax outputs is scored. With BADGE the two gradient embeddings are
averaged, g = ½·(z_g ⊗ q_g + z_l ⊗ q_l); a sum of two outer products, so it need not be built either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.kernels import gradient_seeding, top
from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, parameter, register


@final
@register
@dataclass(frozen=True)
class EnsembleLogit(Strategy):
    name = "ensemble_logit"
    summary = "entropy or BADGE on the average of the two models' outputs"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    base: str = parameter("entropy", ("entropy", "badge"), "the strategy on the averaged outputs")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        both = [pool.unlabelled("global"), pool.unlabelled("local")]
        if self.base == "entropy":
            p = (both[0].probabilities + both[1].probabilities) / 2
            entropy = torch.special.entr(p).sum(1)
            chosen = top(entropy, budget, rng)
            return Selection(chosen, entropy[chosen])
        z = torch.stack([outputs.embeddings for outputs in both])
        q = torch.stack([outputs.residual / 2 for outputs in both])
        return Selection(*gradient_seeding(z, q, min(budget, len(pool)), rng))
