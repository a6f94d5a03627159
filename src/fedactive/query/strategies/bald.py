"""BALD (Houlsby et al., 2011; Gal, Islam & Ghahramani, ICML 2017): where the models of a committee disagree.

    score = H(mean_t p_t) - mean_t H(p_t)

The committee p_t is what FL rounds left behind (the global model and the client's own of every second one),
or the global model with dropout, for a model that has dropout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from fedactive.options import option
from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, register


@final
@register
@dataclass(frozen=True)
class BALD(Strategy):
    name = "bald"
    summary = "samples on which a committee of models disagrees, each sure of itself"
    paper = "Houlsby et al., 2011; Gal et al., ICML 2017"
    selectors = ("both",)

    samples: str = option(
        "committee",
        "the committee: models of earlier FL rounds, or passes with dropout",
        choices=("committee", "dropout"),
    )

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.samples})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        models, mean, entropy = 0, torch.zeros(()), torch.zeros(())
        for models, outputs in enumerate(pool.each(self.samples), start=1):  # noqa: B007 - counted
            mean, entropy = mean + outputs.probabilities, entropy + outputs.entropy
        score = torch.special.entr(mean / models).sum(1) - entropy / models
        chosen = top(score, budget, rng)
        return Selection(chosen, score[chosen])
