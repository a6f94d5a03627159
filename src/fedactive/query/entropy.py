"""Entropy sampling (Wang & Shang, IJCNN 2014; Eq. 2 of LoGo): the samples the model is least sure of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, register


@final
@register
@dataclass(frozen=True)
class Entropy(Strategy):
    name = "entropy"
    summary = "highest predictive entropy first"
    paper = "Wang & Shang, IJCNN 2014"
    selectors = ("global", "local")

    selector: str = "global"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.selector})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        entropy = pool.unlabelled(self.selector).entropy
        chosen = top(entropy, budget, rng)
        return Selection(chosen, entropy[chosen])
