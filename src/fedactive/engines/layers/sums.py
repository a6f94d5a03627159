"""Add up what several programs have computed in parts."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.launch import Launch


def sum_launch(parts: Tensor, result: Tensor, length: int, clients: int) -> Launch:
    """Sum parts (clients, count, size) into rows of the given length."""
    _, count, size = parts.shape
    rows = 16 if count > 8 else 1
    block = 1024 // rows
    arguments = (parts, result, count, size, parts.stride(0), length)
    return Launch(sum_parts, (math.ceil(size / block), clients), arguments, {"ROWS": rows, "BLOCK": block})


# One argument per line would hide the kernels behind their signatures.
# fmt: off

@triton.jit
def sum_parts(parts, result, count, size, parts_length, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sum (clients, count, size) over the parts, ROWS at a time, into rows of the given length."""
    wait_for_the_last()
    client, r = tl.program_id(1), tl.arange(0, ROWS)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for begin in range(0, count, ROWS):
        there = (begin + r < count)[:, None] & (e < size)[None, :]
        place = parts + client * parts_length + (begin + r)[:, None] * size + e[None, :]
        total += tl.load(place, mask=there, other=0.0)
    tl.store(result + client * length + e, tl.sum(total, 0), mask=e < size)
