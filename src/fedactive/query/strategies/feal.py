"""FEAL (Chen et al., CVPR 2024): evidential uncertainty of two models, and no near neighbours in one query.

Logits z are evidence of a Dirichlet distribution: a = ReLU(z) + 1, S = Σ_c a_c. With the global model g and
the client's own l after its last update,

    u = Σ_c (a_c / S)·[ψ(S + 1) - ψ(a_c + 1)]      aleatoric, of both models
    e = entropy of Dir(a_g)                        epistemic, scaled to [0, 1] over the pool
    score = e·(u_g + u_l)

Samples are gone through from the highest score down. N(i) are the up to 5 nearest neighbours of i with a
cosine above 0.85, by l's embeddings. i is taken if none of N(i) has been taken, or if there are fewer than 5;
if too few are taken, the best of those left over follow. The paper's features are the last map pooled to 3x3;
models here give their embedding (cnn4's is its last map, 2x2 for images of 32x32).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import Selection, Strategy, register

NEIGHBOURS = 5
NEAR = 0.85  # cosine
BLOCK = 2**26  # similarities at a time


@final
@register
@dataclass(frozen=True)
class FEAL(Strategy):
    name = "feal"
    summary = "highest evidential uncertainty by the global and the client's last model, no near neighbours"
    paper = "Chen et al., CVPR 2024"
    selectors = ("both",)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local_last"})

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        count = min(budget, len(pool))
        if not count:
            return Selection(torch.zeros(0, dtype=torch.long), torch.zeros(0))
        own = pool.unlabelled("local_last")
        score = uncertainty(pool.unlabelled("global").logits, own.logits)
        order = top(score, len(pool), rng)
        # Whether a sample is taken depends on those before it: a walk, which a CPU does in milliseconds.
        taken = relaxed(order.tolist(), near_neighbours(own.embeddings).tolist(), count)
        chosen = torch.tensor(taken, device=order.device)
        return Selection(chosen, score[chosen].float())


def uncertainty(global_logits: Tensor, own_logits: Tensor) -> Tensor:
    g, own = (F.relu(logits.double()) + 1 for logits in (global_logits, own_logits))
    epistemic = dirichlet_entropy(g)
    epistemic = epistemic - epistemic.min()
    epistemic = epistemic / epistemic.max().clamp_min(1e-12)
    return epistemic * (aleatoric(g) + aleatoric(own))


def aleatoric(a: Tensor) -> Tensor:
    """Compute the expected entropy of a categorical distribution drawn from Dir(a)."""
    s = a.sum(1, keepdim=True)
    return (a / s * (torch.digamma(s + 1) - torch.digamma(a + 1))).sum(1)


def dirichlet_entropy(a: Tensor) -> Tensor:
    """Compute ln B(a) + (S - C)·ψ(S) - Σ_c (a_c - 1)·ψ(a_c)."""
    s = a.sum(1)
    log_beta = torch.lgamma(a).sum(1) - torch.lgamma(s)
    return log_beta + (s - a.shape[1]) * torch.digamma(s) - ((a - 1) * torch.digamma(a)).sum(1)


def near_neighbours(embeddings: Tensor) -> Tensor:
    """Return each sample's nearest (n, 5) by cosine, -1 where none is near enough."""
    x = F.normalize(embeddings)
    found = []
    for start, part in zip(range(0, len(x), size := max(1, BLOCK // len(x))), x.split(size), strict=True):
        cosine = part @ x.T
        cosine.diagonal(start).fill_(-1)
        nearest = cosine.topk(min(NEIGHBOURS, len(x)))
        found.append(nearest.indices.masked_fill(nearest.values <= NEAR, -1))
    return torch.cat(found)


def relaxed(order: list[int], neighbours: list[list[int]], count: int) -> list[int]:
    """Walk down the order; return the first `count` that are taken, then those left over, in order."""
    taken: dict[int, None] = {}  # a set that remembers the order
    for i in order:
        near = [j for j in neighbours[i] if j >= 0]
        if len(near) < NEIGHBOURS or taken.keys().isdisjoint(near):
            taken[i] = None
            if len(taken) == count:
                return list(taken)
    return [*taken, *(i for i in order if i not in taken)][:count]
