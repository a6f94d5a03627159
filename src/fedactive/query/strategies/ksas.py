"""KSAS, the query of KAFAL (Cao et al., ICCV 2023): samples on which two models differ about what it knows.

With n_c labels of class c at the client, the global model g and the client's own l after its last update,

    p~ = softmax(z + ln n)      of both models, over the classes with n_c > 0
    score = ½·[KL(p~_g ‖ p~_l) + KL(p~_l ‖ p~_g)] = ½·Σ_c (p~_g - p~_l)·(ln p~_g - ln p~_l)

so that disagreement counts most where the client has seen many labels. A client without labels weighs all
classes alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, register


@final
@register
@dataclass(frozen=True)
class KSAS(Strategy):
    name = "ksas"
    summary = (
        "samples on which the global and the client's last model differ, weighed by its labels; of KAFAL"
    )
    paper = "Cao et al., ICCV 2023"
    selectors = ("both",)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local_last"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        counts = torch.bincount(pool.labels, minlength=pool.classes)
        counts = counts if len(pool.labels) else torch.ones_like(counts)
        g, own = (pool.unlabelled(model).logits for model in ("global", "local_last"))
        score = discrepancy(g, own, counts)
        chosen = top(score, budget, rng)
        return Selection(chosen, score[chosen])


def discrepancy(one: Tensor, other: Tensor, counts: Tensor) -> Tensor:
    """Compute the symmetric divergence of two models' knowledge-weighed predictions."""
    known = counts > 0
    log_p, log_q = ((logits[:, known] + counts[known].log()).log_softmax(1) for logits in (one, other))
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1) / 2
