"""Samples that stand for many while labels are few, uncertain ones once they teach more: by what labels say.

Each client asks its own labels. A ridge classifier on the embeddings (of length 1, λ = 1) predicts each of
its n labelled samples from all others: leave-one-out, in closed form. The client chooses by MaxHerding, and
by `margin` as soon as one of these holds:

1. Its labels are no surprise any more: of 24 predictions or more at most a quarter is wrong. A sample that
   stands for many and is predicted teaches nothing. Fewer predictions say too little.
2. Uncertainty finds mistakes. Margins (the highest value less the second highest) of wrong predictions are
   lower than those of right ones by 5 standard errors of the Mann-Whitney test. That takes nine mistakes.

No count of labels is set: where classes are easily told apart the switch comes by 1, where they are not by 2.
A switch too early costs more than one too late, hence 5 and not 2. Clients switch one by one. The numbers
were chosen on CIFAR-10 and PathMNIST with a pretrained backbone; see docs/FEW-LABELS.md.

Clients that are alike share out what MaxHerding would choose for all of them (`query/alike.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.alike import DIRECTIONS, along, for_all, is_alike, own_part
from fedactive.query.pool import Pool
from fedactive.query.strategies.margin import Margin
from fedactive.query.strategies.maxherding import MaxHerding
from fedactive.query.strategy import BatchedStrategy, Selection, register

PENALTY = 1.0
STANDARD_ERRORS = 5.0
SURPRISE = 1 / 4
ENOUGH = 24  # predictions
FEWEST = 5  # samples of which a client tells the mean


@final
@register
@dataclass(frozen=True)
class Auto(BatchedStrategy):
    name = "auto"
    summary = "samples that stand for many while labels are few, then uncertain ones; each client decides"
    paper = "-"
    selectors = ("global",)  # clients compare embeddings, so these come from one model
    needs_model = False  # without labels it is MaxHerding
    numbers = DIRECTIONS
    tells_each_round = True  # the model, and with it where samples lie, is another in each AL round

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global"})

    def summarise(self, pool: Pool) -> Tensor | None:
        x = all_points(pool)
        return along(x).mean(0) if len(x) >= FEWEST else None

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        unsure = [goes_by_margin(pool) for pool in pools]
        chosen: dict[int, Selection] = {}
        few = [k for k, switched in enumerate(unsure) if not switched]
        if few:
            some = self.herd([pools[k] for k in few], [counts[k] for k in few], [rngs[k] for k in few])
            chosen |= dict(zip(few, some, strict=True))
        for k, switched in enumerate(unsure):
            if switched:
                chosen[k] = Margin().select(pools[k], counts[k], rngs[k])
        return [chosen[k] for k in range(len(pools))]

    def herd(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        """Choose by MaxHerding; clients that are alike choose for all, and keep their part."""
        wanted = list(counts)
        for k, pool in enumerate(pools):
            if is_alike(all_points(pool), pool.agreed, pool.clients):
                wanted[k] = for_all(counts[k], pool.clients, len(pool))
        selections = []
        found = MaxHerding().choose(pools, wanted, rngs)
        for pool, count, made in zip(pools, counts, found, strict=True):
            if len(made.indices) > count:
                x = F.normalize(pool.unlabelled("global").embeddings[made.indices])
                own = own_part(x, count, pool.client, pool.clients)
                made = Selection(made.indices[own], made.scores[own])
            selections.append(made)
        return selections


def all_points(pool: Pool) -> Tensor:
    """Return the embeddings of all samples, by the global model, of length 1."""
    parts = [pool.unlabelled("global").embeddings, pool.labelled("global").embeddings]
    return F.normalize(torch.cat(parts))


def goes_by_margin(pool: Pool) -> bool:
    """Return whether the client's labels say that uncertain samples teach more."""
    if len(pool.labels) < 2:
        return False
    x = F.normalize(pool.labelled("global").embeddings)
    margin, wrong = leave_one_out(x, pool.labels, pool.classes)
    known = len(wrong) >= ENOUGH and int(wrong.sum()) / len(wrong) <= SURPRISE
    return known or mann_whitney(margin[wrong], margin[~wrong]) >= STANDARD_ERRORS


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
