"""Least confidence (Lewis & Gale, SIGIR 1994): the samples whose most likely class is least likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from fedactive.query.pool import Outputs
from fedactive.query.strategy import ScoringStrategy, register


@final
@register
@dataclass(frozen=True)
class LeastConfidence(ScoringStrategy):
    name = "least_confidence"
    summary = "lowest probability of the predicted class first"
    paper = "Lewis & Gale, SIGIR 1994"

    def score(self, outputs: Outputs) -> Tensor:
        """1 - p_ŷ."""
        return 1 - outputs.probabilities.amax(1)
