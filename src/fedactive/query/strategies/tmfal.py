"""TM-FAL (MICCAI 2025): samples whose embedding keeps moving, of each class in turn.

Over the checkpoints t that a client keeps, of the global model and of its own,

    u = mean_d std_t(h_t,d) / max_c mean_t p_t,c

with embeddings h and softmax p. The samples are sorted by u, and taken in turn from the classes that the
global model predicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.query.kernels import best_of_each
from fedactive.query.pool import Outputs, Pool
from fedactive.query.strategy import Selection, Strategy, register


@final
@register
@dataclass(frozen=True)
class TMFAL(Strategy):
    name = "tmfal"
    summary = "samples whose embedding moved most over the FL rounds, of each predicted class in turn"
    paper = "TM-FAL, MICCAI 2025"
    selectors = ("both",)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "committee"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        predicted = pool.unlabelled("global").logits.argmax(1)
        score = restlessness(pool.each("committee"))
        chosen = best_of_each(predicted, score, budget, rng)
        return Selection(chosen, score[chosen])


def restlessness(checkpoints: Iterable[Outputs]) -> Tensor:
    """Compute u, with one checkpoint's outputs at a time in memory (Welford's sums)."""
    mean_p, mean_h, squares, t = (torch.zeros(()),) * 3 + (0,)
    for t, outputs in enumerate(checkpoints, start=1):
        mean_p = mean_p + (outputs.probabilities - mean_p) / t
        off = outputs.embeddings - mean_h
        mean_h = mean_h + off / t
        squares = squares + off * (outputs.embeddings - mean_h)
    return (squares / t).sqrt().mean(1) / mean_p.amax(1)
