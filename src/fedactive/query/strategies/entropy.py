"""Entropy sampling (Wang & Shang, IJCNN 2014; Eq. 2 of LoGo): the samples the model is least sure of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from fedactive.query.pool import Outputs
from fedactive.query.strategy import ScoringStrategy, register


@final
@register
@dataclass(frozen=True)
class Entropy(ScoringStrategy):
    name = "entropy"
    summary = "highest predictive entropy first"
    paper = "Wang & Shang, IJCNN 2014"

    def score(self, outputs: Outputs) -> Tensor:
        """H(p) = -Σ_c p_c ln p_c."""
        return outputs.entropy
