"""The launches of a first block whose map is not stored; see `first_block`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fedactive.engines.layers import first_block
from fedactive.engines.layers.launch import Launch
from fedactive.engines.layers.network import Convolution, Join
from fedactive.engines.layers.sums import sum_launch

if TYPE_CHECKING:
    from fedactive.engines.layers.stack import LayerStack

POSITIONS = 128  # of a map, for one program; half as many pooled ones
WINDOWS = 16  # of 2x2 positions, that one program of the backward pass processes at a time
PATCH_PARTS = 64  # programs that share one client's sum over patches
BACK_PARTS = 256  # programs that share one client's backward pass


class FirstBlock:
    """Makes the launches of both passes, which share the sums over patches."""

    def __init__(self, stack: LayerStack, convolution: Convolution, join: Join) -> None:
        self.stack, self.step, self.join = stack, convolution, join
        image, channels, patch = stack.network.image, convolution.shape.channels, stack.patches.shape[-1]
        self.sums = stack.zeros(patch, patch)
        self.area = {"AREA": image.height * image.breadth}
        self.sizes = {"BATCH": stack.recipe.batch_size, "HEIGHT": image.height, "BREADTH": image.breadth}
        self.patch: dict[str, Any] = {"INTO": image.channels, "PATCH": patch, "C": channels}
        self.weight = stack.layout.view(stack.rounded, convolution.weight)

    def forward(self) -> list[Launch]:
        stack, step, patch = self.stack, self.step, self.patch["PATCH"]
        batch = {"BATCH": stack.recipe.batch_size}
        parts = stack.zeros(PATCH_PARTS, patch * patch)
        own = [
            stack.layout.view(stack.parameters, name)
            for name in (step.bias or f"{step.norm}.bias", f"{step.norm}.weight", f"{step.norm}.bias")
        ]
        running = [
            stack.buffer_layout.view(stack.statistics, f"{step.norm}.{name}")
            for name in ("running_mean", "running_var")
        ]
        counter, norm = stack.buffers[f"{step.norm}.num_batches_tracked"], stack.norm[step.number]
        lengths = (stack.layout.length, stack.buffer_layout.length)
        known = stack.precision | {"BLOCK": POSITIONS}
        pooled = math.ceil(stack.positions(self.join.shape) / (POSITIONS // 2))
        return [
            Launch(
                first_block.patch_sums, (PATCH_PARTS, stack.width), (stack.patches, stack.here, parts),
                batch | self.area | known | {"PATCH": patch},
            ),
            sum_launch(parts, self.sums, patch * patch, stack.width),
            Launch(
                first_block.first_statistics, (1, stack.width),
                (self.sums, stack.here, self.weight, *own, *running, counter, norm, *lengths),
                stack.batches | self.area | self.patch | {"BIASED": step.bias is not None},
            ),
            Launch(
                first_block.first_forward, (pooled, stack.width),
                (stack.patches, self.weight, norm, stack.maps[self.join.number], lengths[0]),
                self.sizes | self.patch | stack.precision | {"BLOCK": POSITIONS // 2},
            ),
        ]  # fmt: skip

    def backward(self, d_out: Tensor) -> list[Launch]:
        stack, step = self.stack, self.step
        norm, length, values = stack.norm[step.number], stack.layout.length, self.patch["PATCH"] + 2
        values *= self.patch["C"]
        parts, products = stack.zeros(BACK_PARTS, values), stack.zeros(values)
        names = (step.weight, f"{step.norm}.weight", f"{step.norm}.bias")
        gradients = [stack.layout.view(stack.gradient, name) for name in names]
        return [
            Launch(
                first_block.first_backward, (BACK_PARTS, stack.width),
                (stack.patches, stack.here, self.weight, norm, d_out, parts, length),
                self.sizes | self.patch | stack.precision | {"BLOCK": WINDOWS, "num_warps": 2},
            ),
            sum_launch(parts, products, values, stack.width),
            Launch(
                first_block.first_gradient, (1, stack.width),
                (products, self.sums, stack.here, self.weight, norm, *gradients, length),
                stack.batches | self.area | self.patch,
            ),
        ]  # fmt: skip
