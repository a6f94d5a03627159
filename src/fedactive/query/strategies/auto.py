"""Typical samples while labels are few, uncertain ones once uncertainty is worth something: by a test.

Uncertainty helps if a model errs where it is unsure. Each client asks its own labels whether that is so:

1. A ridge classifier on the embeddings (of length 1, λ = 1) predicts each labelled sample from all others of
   the client: leave-one-out, in closed form. Its margin is the highest value less the second highest.
2. The Mann-Whitney test compares the margins of right and wrong predictions. The client chooses by `margin`
   if those of wrong ones are lower by 5 standard errors; if not, by TypiClust.

That takes nine mistakes at least, so with few labels TypiClust goes on. No count of labels is set: where
classes are easily told apart the switch comes late, where they are not it comes early. A switch too early
costs more than one too late, hence 5 and not 2. Clients switch one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.pool import Pool
from fedactive.query.strategies.margin import Margin
from fedactive.query.strategies.typiclust import TypiClust
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection, register

PENALTY = 1.0
STANDARD_ERRORS = 5.0


@final
@register
@dataclass(frozen=True)
class Auto(BatchedStrategy, OneModelStrategy):
    name = "auto"
    summary = "typical samples while labels are few, uncertain ones once mistakes show in the margin"
    paper = "-"
    needs_model = False  # without labels it is TypiClust

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        unsure = [evidence(pool, self.selector) >= STANDARD_ERRORS for pool in pools]
        chosen: dict[int, Selection] = {}
        few = [k for k, switched in enumerate(unsure) if not switched]
        if few:
            typical = TypiClust(self.selector)
            some = typical.choose([pools[k] for k in few], [counts[k] for k in few], [rngs[k] for k in few])
            chosen |= dict(zip(few, some, strict=True))
        for k, switched in enumerate(unsure):
            if switched:
                chosen[k] = Margin(self.selector).select(pools[k], counts[k], rngs[k])
        return [chosen[k] for k in range(len(pools))]


def evidence(pool: Pool, model: str) -> float:
    """Return by how many standard errors the margins of wrong predictions are lower; 0 if there are none."""
    if len(pool.labels) < 2:
        return 0.0
    margin, wrong = leave_one_out(F.normalize(pool.labelled(model).embeddings), pool.labels, pool.classes)
    return mann_whitney(margin[wrong], margin[~wrong])


def leave_one_out(x: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Predict each sample by ridge regression from all others: the margins, and which are wrong."""
    targets = F.one_hot(labels, classes).double()
    kernel = x.double() @ x.double().T
    hat = torch.linalg.solve(kernel + torch.eye(len(x)).mul(PENALTY).to(kernel), kernel)
    own = hat.diagonal()[:, None]
    # What the fit says of a sample, less the part that the sample itself has in it.
    predicted = (hat @ targets - own * targets) / (1 - own)
    best = predicted.topk(min(2, classes), 1)
    return best.values[:, 0] - best.values[:, -1], best.indices[:, 0] != labels


def mann_whitney(low: Tensor, high: Tensor) -> float:
    """Return by how many standard errors values of `low` are below those of `high`, by their ranks."""
    m, n = len(low), len(high)
    if not m or not n:
        return 0.0
    below = (low[:, None] < high).double() + 0.5 * (low[:, None] == high).double()
    return float(below.mean() - 0.5) / math.sqrt((m + n + 1) / (12 * m * n))
