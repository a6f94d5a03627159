"""Random sampling: the baseline, and every strategy's first round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, register


@final
@register
@dataclass(frozen=True)
class Random(Strategy):
    name = "random"
    summary = "samples drawn uniformly, without a model"
    paper = "baseline"
    selectors = ("none",)
    needs_model = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        chosen = torch.randperm(len(pool), generator=rng)[:budget]
        return Selection(chosen, torch.zeros(len(chosen)))
