"""The rest of a step beside the gradients, as two GPU kernels instead of two dozen.

They do what `Stack.gather` and `Stack.descend` do in PyTorch, which is what runs on a CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from fedactive.engines.layers.ahead import wait_for_the_last
from fedactive.engines.layers.launch import Launch

if TYPE_CHECKING:
    from fedactive.engines.stack import Stack

ELEMENTS = 1024  # of a client's parameters, for one program


def gather(stack: Stack) -> Launch:
    """Make the launch that collects a step's images."""
    _, channels, height, breadth = stack.images.shape
    batch = stack.recipe.batch_size
    # All clients share these.
    images, scale, shift = (
        shared.expand(stack.width, *shared.shape)
        for shared in (stack.images, stack.normalise.scale, stack.normalise.shift)
    )
    return Launch(
        gather_kernel, (batch, stack.width),
        (images, stack.row, stack.active.view(torch.uint8), scale, shift, stack.batch, stack.targets,
         stack.present.view(torch.uint8)),
        {"ROW": stack.row.shape[1], "BATCH": batch, "CHANNELS": channels, "HEIGHT": height,
         "BREADTH": breadth, "SIZE": triton.next_power_of_2(channels * height * breadth)},
    )  # fmt: skip


def descend(stack: Stack, begin: int, end: int) -> Launch:
    """Make the launch that updates these columns of all clients' parameters."""
    batch, absent = stack.recipe.batch_size, stack.velocity  # a placeholder that is not read
    return Launch(
        descend_kernel, (triton.cdiv(end - begin, ELEMENTS), stack.width),
        (stack.parameters, stack.rounded, stack.velocity, stack.gradient,
         absent if stack.start is None else stack.start, absent if stack.drift is None else stack.drift,
         stack.mu, stack.row, stack.present.view(torch.uint8), stack.steps,
         stack.recipe.momentum, stack.recipe.weight_decay, begin, end, stack.layout.length),
        {"ROW": stack.row.shape[1], "BATCH": batch, "PADDED": triton.next_power_of_2(batch),
         "START": stack.start is not None, "DRIFT": stack.drift is not None,
         "ROUND": stack.rounded is not stack.parameters, "SIZE": ELEMENTS},
    )  # fmt: skip


# One argument per line would hide the kernels behind their signatures.
# fmt: off
@triton.jit
def gather_kernel(images, row, active, scale, shift, batch, targets, present, ROW: tl.constexpr,
                  BATCH: tl.constexpr, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, BREADTH: tl.constexpr,
                  SIZE: tl.constexpr):
    """Load one image of one client: mirrored if the plan says so, normalised, channels last."""
    wait_for_the_last()
    n, client = tl.program_id(0), tl.program_id(1)
    plan = row + client * ROW + 1
    code = tl.load(plan + n)
    here = (code >= 0) & (tl.load(active + client) > 0)
    place = client * BATCH + n
    tl.store(present + place, here.to(tl.uint8))
    tl.store(targets + place, tl.maximum(tl.load(plan + BATCH + n), 0))

    code = tl.maximum(code, 0)
    e = tl.arange(0, SIZE)
    c, w, h = e % CHANNELS, e // CHANNELS % BREADTH, e // (CHANNELS * BREADTH)
    w = tl.where(code % 2 == 1, BREADTH - 1 - w, w)
    there = e < CHANNELS * HEIGHT * BREADTH
    source = images + code // 2 * (CHANNELS * HEIGHT * BREADTH)
    pixel = tl.load(source + (c * HEIGHT + h) * BREADTH + w, mask=there)
    value = pixel.to(tl.float32) * tl.load(scale + c, mask=there) + tl.load(shift + c, mask=there)
    tl.store(batch + place * (CHANNELS * HEIGHT * BREADTH) + e, value.to(batch.dtype.element_ty), mask=there)


@triton.jit
def descend_kernel(parameters, rounded, velocity, gradient, start, drift, mu, row, present, steps, momentum,
                   decay, begin, end, length, ROW: tl.constexpr, BATCH: tl.constexpr,
                   PADDED: tl.constexpr, START: tl.constexpr, DRIFT: tl.constexpr, ROUND: tl.constexpr,
                   SIZE: tl.constexpr):
    """Update some parameters of one client, if it has samples in this step."""
    wait_for_the_last()
    part, client = tl.program_id(0), tl.program_id(1)
    n = tl.arange(0, PADDED)
    moving = tl.max(tl.load(present + client * BATCH + n, mask=n < BATCH, other=0).to(tl.int32), 0) > 0
    e = begin + part * SIZE + tl.arange(0, SIZE)
    if begin + part == 0:
        tl.store(steps + client, tl.load(steps + client) + moving.to(tl.int64))
    there = e < tl.where(moving, end, 0)
    place = client * length + e
    rate = tl.load(row + client * ROW).to(tl.float64, bitcast=True).to(tl.float32)
    w = tl.load(parameters + place, mask=there)
    g = tl.load(gradient + place, mask=there) + decay * w
    if START:
        g += tl.load(mu) * (w - tl.load(start + place, mask=there))
    if DRIFT:
        g += tl.load(drift + place, mask=there)
    v = momentum * tl.load(velocity + place, mask=there) + g
    tl.store(velocity + place, v, mask=there)
    w -= rate * v
    tl.store(parameters + place, w, mask=there)
    if ROUND:
        tl.store(rounded + place, w.to(rounded.dtype.element_ty), mask=there)
