"""Which samples make up each batch, and how they are varied, as a pure function of a seed.

The order is computed by hashing (seed, epoch, position) and sorting: integer arithmetic that gives the same
answer on every device and for any number of clients at once, with no generator state to keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def shuffled(seed: int, epochs: int, count: int, device: torch.device | None = None) -> Tensor:
    """Draw one random order of range(count) per epoch, as (epochs, count)."""
    return _hash(seed, epochs, count, device).argsort(dim=1, stable=True)


def draw_keys(seed: int, epochs: int, count: int, device: torch.device | None = None) -> Tensor:
    """Draw an integer for each epoch and place in the order, as (epochs, count): augmentations use it."""
    return _hash(~seed, epochs, count, device)  # another stream


def shuffled_together(
    seeds: Sequence[int], epochs: int, counts: Sequence[int], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Draw orders and keys of many clients: (clients, epochs, largest count); beyond a client's own, -1."""
    largest = max(counts)
    seed, count = torch.tensor([seeds, counts], device=device)[:, :, None, None]
    beyond = torch.arange(largest, device=device) >= count
    places, keys = _hash(torch.stack([seed, ~seed]), epochs, largest, device)
    order = places.masked_fill_(beyond, 2**63 - 1).argsort(dim=2, stable=True)
    return order.masked_fill_(beyond, -1), keys


def mixed_pairs(
    seed: int, epochs: int, count: int, pool: int, device: torch.device | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw two of range(pool) for each epoch and place, and the first one's share β ~ Beta(2, 2).

    All three are (epochs, count).
    """
    drawn = _hash(seed, 6 * epochs, count, device)[epochs:]  # what comes after the orders of `shuffled`
    first, second, *uniform = drawn.unflatten(0, (5, epochs))
    fractions = shift_right(torch.stack(uniform), 11).double() * 2.0**-53
    share = fractions.median(0).values.float()  # the middle one of three uniform numbers is Beta(2, 2)
    return first.remainder(pool), second.remainder(pool), share


def steps_per_epoch(count: int, batch_size: int) -> int:
    """Count the batches of an epoch; a last short one is kept."""
    return -(-count // batch_size)


def _hash(seed: int | Tensor, epochs: int, count: int, device: torch.device | None) -> Tensor:
    """Hash a counter of epochs and places."""
    epoch = torch.arange(epochs, device=device)[:, None]
    position = torch.arange(count, device=device)[None, :]
    return mix((epoch * 2**32 + position + 1) * -7046029254386353131 + seed)


def mix(x: Tensor) -> Tensor:
    """Hash integers by SplitMix's 64-bit finaliser (Steele et al., OOPSLA 2014); int64 wraps around."""
    x = (x ^ shift_right(x, 30)) * -4658895280553007687
    x = (x ^ shift_right(x, 27)) * -7723592293110705685
    return x ^ shift_right(x, 31)


def shift_right(x: Tensor, bits: int) -> Tensor:
    """Shift without sign extension, which torch's own shift does."""
    return torch.bitwise_and(x >> bits, 2 ** (64 - bits) - 1)
