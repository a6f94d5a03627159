"""Margin sampling (Scheffer et al., IDA 2001): the samples whose two most likely classes are closest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from fedactive.query.pool import Outputs
from fedactive.query.strategy import ScoringStrategy, register


@final
@register
@dataclass(frozen=True)
class Margin(ScoringStrategy):
    name = "margin"
    summary = "smallest gap between the two most likely classes first"
    paper = "Scheffer et al., IDA 2001"

    def score(self, outputs: Outputs) -> Tensor:
        """-(p_1st - p_2nd); with a single class p_2nd is 0."""
        p = outputs.probabilities.sort(dim=1, descending=True).values
        return -(p[:, 0] - p[:, 1]) if p.shape[1] > 1 else -p[:, 0]
