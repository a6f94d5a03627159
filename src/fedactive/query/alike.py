"""Clients that are alike would choose alike: how each of them notices, and which part it then chooses.

Each client tells the mean of its samples' embeddings x (of length 1) along 16 directions d, which are the
same for all; the server gives back the mean over clients. A client of n samples is like the others if

    Σ_d (m_d - m̄_d)² < (0.02 + 1/n)·Σ_d Var(x·d)        m_d: its own mean, m̄_d: that of all clients

where 1/n is what chance makes of n samples. Then it chooses for all K clients, sorts what it has chosen along
the first direction, and keeps the k-th of K parts. Equal clients that do this choose the same to begin with,
and no two keep the same.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from fedactive.randomness import Randomness

DIRECTIONS = 16
ALIKE = 0.02  # of CIFAR-10's variance: clients of alpha 1 are below it, those of alpha 0.1 mostly above


@lru_cache(maxsize=1)
def directions(width: int) -> Tensor:
    return torch.randn(width, DIRECTIONS, generator=Randomness(0).torch("directions"))


def along(x: Tensor) -> Tensor:
    """Return where samples lie along each direction."""
    return x @ directions(x.shape[1]).to(x)


def is_alike(x: Tensor, agreed: Tensor) -> bool:
    """Return whether a client with these samples is like the others, whose mean is `agreed`."""
    if len(x) < 2:
        return False
    places = along(x)
    off = (places.mean(0) - agreed.to(places)).square().sum()
    return bool(off < (ALIKE + 1 / len(x)) * places.var(0).sum())


def for_all(count: int, clients: int, size: int) -> int:
    """Return how many a client chooses for all: at most half of its pool, as those were no choice."""
    return max(count, min(count * clients, size // 2))


def own_part(x: Tensor, count: int, client: int, clients: int) -> Tensor:
    """Return the positions that this client keeps of what it has chosen for all, in their order."""
    start = min(len(x) * client // clients, len(x) - count)
    return along(x)[:, 0].argsort(stable=True)[start : start + count].sort().values
