"""CHASe (TKDE 2025): samples whose predicted class kept changing while the client trained.

    score = number of epochs e > 1 with ŷ_e ≠ ŷ_(e-1)

ŷ_e is the class predicted after epoch e of the last local update. With few epochs many samples have the same
score, and the seed decides among them. One epoch leaves nothing to compare: then the choice is random.
"""

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
class CHASe(Strategy):
    name = "chase"
    summary = "samples whose predicted class changed most often over the last local epochs"
    paper = "CHASe, TKDE 2025"
    selectors = ("local",)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"epochs"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        before, changes = None, torch.zeros(len(pool))
        for outputs in pool.each("epochs"):
            predicted = outputs.logits.argmax(1)
            if before is not None:
                changes = changes.to(predicted.device) + (predicted != before)
            before = predicted
        chosen = top(changes, budget, rng)
        return Selection(chosen, changes[chosen])
