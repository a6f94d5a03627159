"""The launches of a backward pass, from the embedding to the gradients of all weights and their update.

A map may have several readers, each of which adds to its gradient. The last one to do so also turns it into
dz, the gradient before the ReLU of the join that made the map, and sums it for BatchNorm.

Weights are updated as soon as nobody needs them any more: while one group of clients moves that memory,
another one computes.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fedactive.engines.layers import convolution, depthwise, ends, tiles
from fedactive.engines.layers.forward import embed_tile, pool_constants
from fedactive.engines.layers.head import head
from fedactive.engines.layers.join import gate_map, gradient_sums, spread
from fedactive.engines.layers.launch import Launch
from fedactive.engines.layers.network import Convolution, Join, names_of
from fedactive.engines.layers.norm import norm_gradient
from fedactive.engines.layers.pool import pool_back
from fedactive.engines.layers.weight_launches import weight_launches
from fedactive.engines.step_kernels import descend

if TYPE_CHECKING:
    from fedactive.engines.layers.stack import LayerStack


class Backward:
    """Writes the launches; `so_far` holds the gradients of maps that still miss a reader's."""

    def __init__(self, stack: LayerStack, own_head: bool = True) -> None:
        """`own_head`: does the kernel of the head belong to it, or only what follows from `stack.dz`?"""
        self.stack = stack
        self.launches: list[Launch] = []
        self.sums: dict[int, Tensor] = {}  # of dz and dz·x̂, in parts, by join
        self.so_far: dict[int, Tensor] = {}
        self.ready = ["head.weight", "head.bias"]  # parameters that may be updated
        steps = stack.network.steps
        self.gradients = {step.number: stack.map_of(step.shape) for step in steps if isinstance(step, Join)}
        self.readers = Counter(step.source for step in steps if isinstance(step, Convolution))
        self.readers.update(step.other for step in steps if isinstance(step, Join) and step.other is not None)
        if own_head:
            self.head()
        self.embedding()
        for step in reversed(steps[2:] if stack.first else steps):
            if isinstance(step, Join):
                self.join(step)
            else:
                self.convolution(step)
                self.ready += names_of(step)
                self.update(least=2**20)
        if stack.first:
            self.launches += stack.first.backward(self.gradients[stack.first.join.number])
            self.ready += names_of(stack.first.step)
        self.update(least=1)

    def update(self, least: int) -> None:
        """Update the parameters that are ready, if they are so many that it is worth a launch."""
        spans = self.stack.layout.spans(self.ready)
        if sum(end - begin for begin, end in spans) >= least:
            self.launches += [descend(self.stack, *span) for span in spans]
            self.ready = []

    def add(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **known: Any) -> None:
        self.launches.append(Launch(kernel, grid, arguments, known))

    def gating(self, number: int, blocks: int, ready: bool) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
        """Return the arguments of `gate` for a map whose gradient comes in so many blocks per client."""
        stack, made = self.stack, self.stack.network.join(number)
        raw = made.raw[0]
        if not ready or made.pooled:  # `pool_back` does it in its own way
            absent = stack.maps[number]  # a placeholder that is not read
            return (absent, absent, absent, absent), {"GATE": False, "RELU": "", "ALONE": True}
        self.sums[number] = stack.zeros(blocks, 2, made.shape.channels)
        alone = len(made.raw) == 1 and made.other is None
        arguments = (stack.maps[number], stack.raw[raw], stack.norm[raw], self.sums[number])
        return arguments, {"GATE": True, "RELU": made.relu, "ALONE": alone}

    def head(self) -> None:
        stack, features = self.stack, self.stack.network.features
        classes = stack.model.head.out_features
        parameters = [stack.layout.view(stack.parameters, name) for name in ("head.weight", "head.bias")]
        gradients = [stack.layout.view(stack.gradient, name) for name in ("head.weight", "head.bias")]
        self.add(
            head, (math.ceil(features / 64), stack.width),
            stack.z, *parameters, stack.targets, stack.here, stack.dz, *gradients, stack.layout.length,
            FEATURES=features, CLASSES=classes, COLUMNS=tiles.power(max(tiles.SMALLEST, classes)), K=64,
            **stack.batches,
        )  # fmt: skip

    def embedding(self) -> None:
        stack, last = self.stack, self.stack.network.last
        batch, tile = stack.recipe.batch_size, embed_tile(stack)
        gate, known = self.gating(last.number, batch, ready=True)
        self.add(
            ends.embed_back, (math.ceil(last.shape.channels / tile["C"]), batch, stack.width),
            stack.dz, self.gradients[last.number], *gate, **tile, **known,
        )  # fmt: skip

    def join(self, step: Join) -> None:
        stack, dz = self.stack, self.gradients[step.number]
        if step.other is not None:
            self.pass_on(step.other, dz)
        if step.pooled:
            self.pool(step, dz)
            return
        tile = tiles.elementwise(step.shape.channels)
        grid, positions = stack.grid(step.shape, tile), stack.positions(step.shape)
        sums = self.sums[step.number]
        for raw in step.raw:
            y, norm = stack.raw[raw], stack.norm[raw]
            if raw != step.raw[0]:
                sums = stack.zeros(grid[0], 2, step.shape.channels)
                self.add(
                    gradient_sums, grid, dz, y, norm, sums, positions, CHANNELS=step.shape.channels, **tile
                )
            self.norm(raw, sums)
            self.add(
                spread, grid, dz, norm, stack.here, y, positions,
                AREA=step.shape.area, CHANNELS=step.shape.channels, **tile,
            )  # fmt: skip

    def pass_on(self, number: int, dz: Tensor) -> None:
        """Give the gradient of a join to the map that was added in it."""
        stack, shape = self.stack, self.stack.network.join(number).shape
        self.readers[number] -= 1
        before, ready = self.so_far.get(number), self.readers[number] == 0
        if before is None and not ready:
            self.so_far[number] = dz
            return
        tile = tiles.elementwise(shape.channels)
        grid = stack.grid(shape, tile)
        gate, known = self.gating(number, grid[0], ready)
        self.add(
            gate_map, grid, dz, dz if before is None else before, *gate, self.gradients[number],
            stack.positions(shape), CHANNELS=shape.channels, ADD=before is not None, **known, **tile,
        )  # fmt: skip
        self.so_far[number] = self.gradients[number]

    def pool(self, step: Join, d_out: Tensor) -> None:
        stack, raw = self.stack, step.raw[0]
        tile = tiles.elementwise(step.shape.channels, values=2048)
        full = stack.network.convolution(raw).shape
        windows = stack.recipe.batch_size * -(-full.height // 2) * -(-full.breadth // 2)
        grid = (math.ceil(windows / tile["BLOCK"]), math.ceil(full.channels / tile["C"]), stack.width)
        sums = stack.zeros(grid[0], 2, full.channels)
        arguments = (stack.raw[raw], stack.norm[raw], stack.here, d_out, sums)
        known = pool_constants(stack, step) | tile
        self.add(pool_back, grid, *arguments, SPREAD=False, **known)
        self.norm(raw, sums)
        self.add(pool_back, grid, *arguments, SPREAD=True, **known)

    def norm(self, raw: int, sums: Tensor) -> None:
        stack, step = self.stack, self.stack.network.convolution(raw)
        names = (step.bias or f"{step.norm}.bias", f"{step.norm}.weight", f"{step.norm}.bias")
        gradients = [stack.layout.view(stack.gradient, name) for name in names]
        channels = step.shape.channels
        tile = tiles.sums(channels)
        self.add(
            norm_gradient, (math.ceil(channels / tile["C"]), stack.width),
            sums, sums.shape[1], stack.here, stack.norm[raw], *gradients, stack.layout.length,
            AREA=step.shape.area, CHANNELS=channels, BIASED=step.bias is not None, **tile, **stack.batches,
        )  # fmt: skip

    def convolution(self, step: Convolution) -> None:
        self.launches += weight_launches(self.stack, step)
        if step.source == 0:
            return
        stack, number = self.stack, step.source
        self.readers[number] -= 1
        other, ready = self.so_far.get(number), self.readers[number] == 0
        dx = self.so_far[number] = self.gradients[number]
        shape = stack.network.join(number).shape
        if step.depthwise:
            kernel: Any = depthwise.convolve_each_back
            tile = tiles.depthwise_back(shape.channels, stack.positions(step.shape) * stack.width)
            blocks, columns, clients = stack.grid(step.shape, tile)
            grid = (blocks * step.stride**2, columns, clients)
            gate, known = self.gating(number, grid[0], ready)
            known |= {"CHANNELS": shape.channels}
            weights = stack.parameters
        else:
            kernel = convolution.convolve_back
            tile = stack.product_tile(step, back=True)
            blocks = math.ceil(stack.positions(step.shape) / tile["M"]) * step.stride**2
            grid = (math.ceil(shape.channels / tile["N"]), blocks, stack.width)
            gate, known = self.gating(number, blocks, ready)
            known |= stack.channels(step, tapped=False) | stack.precision
            weights = stack.rounded
        self.add(
            kernel, grid,
            stack.raw[step.number], stack.layout.view(weights, step.weight),
            dx if other is None else other, dx, *gate, stack.layout.length,
            ADD=other is not None, **stack.geometry(step), **known, **tile,
        )  # fmt: skip
