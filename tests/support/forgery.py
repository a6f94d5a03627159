"""Checkpoints with a right checksum and wrong values: what somebody makes who knows how they are written."""

import hashlib
import io
import math

import torch

from fedactive.record.run_folder import MAGIC

ANYTHING = (None, True, -1, 0, 1, 7, 10**9, 2**63, 10**30, -0.5, math.nan, math.inf, "", "x" * 300, b"x")
ANYTHING += ([], {}, (), [[1]], {"a": 1}, {1: "a"}, torch.zeros(0), torch.ones(2, 3), torch.tensor(-1))
NUMBERS = (-1, 0, 1, 200, 2**40, 1e30, math.nan, math.inf)
KINDS = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


def forge(checkpoint, rng, changes=1):
    """Return the checkpoint with something else in one place, or in some, and with the checksum of that."""
    plain = torch.load(io.BytesIO(checkpoint.partition(b"\n")[2]), weights_only=True)
    for _ in range(changes):
        plain = changed(plain, rng)
    return sealed(plain)


def sealed(plain):
    buffer = io.BytesIO()
    torch.save(plain, buffer)
    body = buffer.getvalue()
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def changed(value, rng):
    """Return the value with something else in one place of it, however deep, or something else altogether."""
    if isinstance(value, dict | list | tuple) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        other = {k: changed(value[k], rng) if k == key else value[k] for k in keys}
        return other if isinstance(value, dict) else type(value)(other.values())
    return rng.choice(ANYTHING) if rng.random() < 0.3 else another(value, rng)


def another(value, rng):
    """Return something of the same type that is not what it was."""
    if isinstance(value, torch.Tensor):
        return another_tensor(value, rng)
    if isinstance(value, dict):
        keys = list(value) or [None]
        gone = rng.choice(keys)
        left = {k: v for k, v in value.items() if k != gone}
        return rng.choice((left, {**left, "other": value.get(gone)}, {**value, rng.choice((7, "other")): 1}))
    if isinstance(value, list | tuple):
        return rng.choice((value[1:], value[:-1], value * 2, value[::-1]))
    if isinstance(value, str):
        return rng.choice((value[1:], value + "x", "", "\ud800", "local"))
    if isinstance(value, int | float):
        return rng.choice((value + 1, value - 1, -value, value * 10**9, float(value), 2**62, math.nan))
    return 1


def another_tensor(value, rng):
    flat = value.flatten()
    shapes = (flat, flat[:-1], flat[:0], value[None], value.reshape(-1, 1), torch.cat([flat, flat]))
    ways = (
        lambda: rng.choice(shapes),
        lambda: value.to(rng.choice(KINDS)),
        lambda: torch.full_like(value.double(), rng.choice(NUMBERS)).to(value.dtype),
        lambda: torch.full_like(value.double(), rng.choice(NUMBERS)).to(value.dtype),
        lambda: torch.zeros(1, dtype=value.dtype).expand(10**6, 10**6),  # four bytes that claim to be more
        lambda: value.to_sparse(),
    )
    return rng.choice(ways)()
