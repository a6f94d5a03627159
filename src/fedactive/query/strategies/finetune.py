"""The global model fine-tuned on the client's labels chooses (Sec. 6.3 of LoGo, "Fine-tuning")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from fedactive.options import option
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, Selection, make_strategy, register


@final
@register
@dataclass(frozen=True)
class FineTune(BatchedStrategy):
    name = "finetune"
    summary = "entropy or BADGE by the global model after training on the client's own labels"
    paper = "Kim et al., CVPR 2023"
    selectors = ("both",)

    base: str = option("entropy", "the strategy that uses the fine-tuned model", choices=("entropy", "badge"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"finetuned"})

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        return make_strategy(self.base, "finetuned").select_all(pools, max(counts), rngs)
