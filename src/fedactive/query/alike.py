"""Clients that are alike would choose alike: how each of them notices, and which part it then chooses.

Each client tells the mean of its samples' embeddings x (of length 1) along 16 directions d, which are the
same for all; the server gives back the mean over the K clients, from which follows that of the others. A
client of n samples is like these if

    Σ_d (m_d - o_d)² < (0.001 + 2·K/(K-1)/n)·Σ_d Var(x·d)       m_d: its own mean, o_d: that of the others

where the second summand is twice what chance makes of n samples each. Then it chooses for all K clients,
sorts what it has chosen along the first direction, and keeps the k-th of K parts. In AL round 1 equal clients
choose nearly the same, and keep different parts of it. Later each knows its own labels only, and choices for
all differ more. Nobody chooses the part of a client that is not alike, or that goes by margins.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from fedactive.randomness import Randomness

DIRECTIONS = 16
ALIKE = 0.001  # of the variance; see docs/FEW-LABELS.md


@lru_cache(maxsize=1)
def directions(width: int) -> Tensor:
    return torch.randn(width, DIRECTIONS, generator=Randomness(0).torch("directions"))


def along(x: Tensor) -> Tensor:
    """Return where samples lie along each direction."""
    return x @ directions(x.shape[1]).to(x)


def is_alike(x: Tensor, agreed: Tensor | None, clients: int) -> bool:
    """Return whether a client with these samples is like the others; `agreed` is the mean of all of them."""
    if agreed is None or clients < 2 or len(x) < 2:
        return False
    apart = clients / (clients - 1)  # as much further the others' mean is than that of all
    places = along(x)
    off = (apart * (places.mean(0) - agreed.to(places))).square().sum()
    return bool(off < (ALIKE + 2 * apart / len(x)) * places.var(0).sum())


def for_all(count: int, clients: int, size: int) -> int:
    """Return how many a client chooses for all: at most half of its pool, for more would be no choice."""
    return max(count, min(count * clients, size // 2))


def own_part(x: Tensor, count: int, client: int, clients: int) -> Tensor:
    """Return the positions that this client keeps of what it has chosen for all, in their order."""
    start = min(len(x) * client // clients, len(x) - count)
    return along(x)[:, 0].argsort(stable=True)[start : start + count].sort().values
