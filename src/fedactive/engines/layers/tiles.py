"""How the work is divided among programs; chosen by measurement on an H200."""

from __future__ import annotations

import math
from typing import Any

import torch

SMALLEST = 16  # the narrowest matrix that the tensor cores take
VALUES = 4096  # of a map, for one program of a pass over it

Tile = dict[str, Any]


def power(number: int) -> int:
    """Return the power of two at or above this number."""
    return 1 << max(0, number - 1).bit_length()


def elementwise(channels: int, values: int = VALUES) -> Tile:
    width = min(64, power(channels))
    return {"BLOCK": values // width, "C": width, "num_warps": 4}


def depthwise(channels: int, stride: int) -> Tile:
    """Tile a pass with neighbours; a program goes through several blocks, whose neighbours overlap."""
    width = min(32, power(channels))
    return {"BLOCK": 1024 // width, "C": width, "STEPS": 4 // stride**2, "num_warps": 2}


def depthwise_back(channels: int, positions: int) -> Tile:
    return elementwise(channels, values=2048) | {"STEPS": 8 if positions * channels > 2**23 else 4}


def depthwise_weights(channels: int, positions: int) -> Tile:
    tile = elementwise(channels, values=512)
    steps = max(1, min(16, positions // (8 * tile["BLOCK"])))
    return tile | {"STEPS": steps, "num_warps": 1 if tile["C"] == 64 else 2}


def sums(channels: int) -> Tile:
    """Tile the sum of what blocks of positions have stored for every channel."""
    return {"BLOCK": 128, "C": min(16, power(channels)), "num_warps": 4}


def product(dtype: torch.dtype, depth: int, channels: int, size: int, programs: int, back: bool) -> Tile:
    """Tile the product of a convolution size x size, (positions, depth) by (depth, channels).

    `programs` is the number of tiles of 128x128 that it has.
    """
    exact = dtype == torch.float32
    width = min(64 if size == 1 or programs < 400 else 128, max(SMALLEST, power(channels)))
    depth = min(32 if exact else 64, max(SMALLEST, power(depth)))
    # Turned, N is the height, of which the tensor cores take 64 at least.
    turned = width >= 64 and not (exact and back)
    return {"M": 128, "N": width, "K": depth, "TURNED": turned, "num_warps": 4, "num_stages": 3}


def weights(dtype: torch.dtype, channels_in: int, channels: int, size: int) -> Tile:
    """Tile dy ⊗ x, of (outputs, inputs), whose sum is over positions."""
    high, broad = max(SMALLEST, power(channels)), max(SMALLEST, power(channels_in))
    high, broad = min(128, high), min(64 if size == 3 else 128, broad)
    many = high * broad > 64 * 64
    if size == 3 and many and dtype != torch.float32:
        return {"M": high, "N": broad, "K": 32, "num_warps": 8, "num_stages": 5}
    stages = 2 if dtype == torch.float32 else 4 if many else 3
    return {"M": high, "N": broad, "K": 64, "num_warps": 8 if many else 4, "num_stages": stages}


def weight_parts(tile: Tile, channels_in: int, channels: int, size: int, clients: int, positions: int) -> int:
    """Count the parts of that sum: enough programs to fill a GPU, each with some work."""
    programs: int = math.ceil(channels / tile["M"]) * math.ceil(channels_in / tile["N"]) * size * clients
    return max(1, min(512 // programs, positions // (8 * int(tile["K"]))))
