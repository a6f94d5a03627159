"""The gradients of many clients for a model made of known layers, each kernel running for all of them at once.

One client's network is too small to fill a GPU. Activations are kept in bfloat16 or float32, sums and weights
always in float32.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from fedactive.engines.layers import tiles
from fedactive.engines.layers.backward import Backward
from fedactive.engines.layers.forward import forward_launches
from fedactive.engines.layers.launch import Launch, compile_all, run
from fedactive.engines.layers.network import Convolution, Network, Shape, network_of
from fedactive.engines.layers.norm import ROWS
from fedactive.engines.stack import Stack

MOST_SAMPLES = 128  # of a batch whose logits one program can compute
MOST_CLASSES = 256


@final
class LayerStack(Stack):
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.recipe.precision == "bf16" else torch.float32

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.network = network = network_of(self.model, tuple(self.images.shape[1:]))
        batch = self.recipe.batch_size
        steps = network.steps
        convolutions = [step for step in steps if isinstance(step, Convolution)]
        joins = [step for step in steps if not isinstance(step, Convolution)]
        self.here = self.present.view(torch.uint8)
        exact = self.dtype() == torch.float32
        self.work = self.parameters if exact else self.parameters.to(self.dtype())  # as convolutions read them
        self.raw = {step.number: self.map_of(step.shape) for step in convolutions}
        self.maps = {step.number: self.map_of(step.shape) for step in joins}
        self.gradients_of = {step.number: self.map_of(step.shape) for step in joins}
        self.norm = {step.number: self.zeros(ROWS, step.shape.channels) for step in convolutions}
        first = next(step for step in convolutions if step.source == 0)
        values = tiles.power(max(tiles.SMALLEST, first.size**2 * network.image.channels))
        self.patches = self.map_of(Shape(first.shape.height, first.shape.breadth, values))
        self.sums = {step.number: self.zeros(self.sum_blocks(step), 3, step.shape.channels) for step in convolutions}
        self.z = self.zeros(batch, network.features)
        self.dz = torch.zeros_like(self.z)
        self.batches = {"BATCH": batch, "PADDED": tiles.power(max(tiles.SMALLEST, batch))}
        self.precision = {"PRECISION": "ieee" if self.recipe.precision == "fp32" else "tf32"}
        self.shared = self.zeros(0)
        self.forward = forward_launches(self)
        self.side = torch.cuda.Stream() if self.parameters.is_cuda else None

    @cached_property
    def backward(self) -> list[Launch]:
        return Backward(self).launches

    # --- memory

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(self.width, *shape, dtype=dtype, device=self.parameters.device)

    def map_of(self, shape: Shape) -> Tensor:
        batch = self.recipe.batch_size
        return self.zeros(batch, shape.height, shape.breadth, shape.channels, dtype=self.dtype())

    def scratch(self, size: int) -> Tensor:
        """Return memory that one launch fills and the next one reads; all of them share it."""
        if self.shared.numel() < size * self.width:
            self.shared = self.zeros(size)
        return self.shared.flatten()[: size * self.width]

    # --- what launches share

    def positions(self, shape: Shape) -> int:
        return self.recipe.batch_size * shape.area

    def grid(self, shape: Shape, tile: tiles.Tile) -> tuple[int, int, int]:
        """Return the programs of a pass over a map."""
        blocks = math.ceil(self.positions(shape) / tile["BLOCK"])
        return blocks, math.ceil(shape.channels / tile["C"]), self.width

    def sum_blocks(self, step: Convolution) -> int:
        if step.depthwise:
            return self.grid(step.shape, tiles.elementwise(step.shape.channels))[0]
        return math.ceil(self.positions(step.shape) / self.forward_tile(step)["M"])

    def input_of(self, step: Convolution) -> Tensor:
        return self.maps[step.source] if step.source else self.patches

    def source_shape(self, step: Convolution) -> Shape:
        if step.source:
            return self.network.join(step.source).shape
        return Shape(step.shape.height, step.shape.breadth, self.patches.shape[-1])

    def geometry(self, step: Convolution) -> dict[str, int]:
        """Return size and stride, and the size of the map it reads; patches are read as by a 1x1."""
        shape = self.source_shape(step)
        size, stride = (step.size, step.stride) if step.source else (1, 1)
        batch = self.recipe.batch_size
        return {"BATCH": batch, "HEIGHT": shape.height, "BREADTH": shape.breadth, "SIZE": size, "STRIDE": stride}

    def channels(self, step: Convolution, tapped: bool = True) -> dict[str, int]:
        into = self.source_shape(step).channels
        known = into if step.source else step.size**2 * self.network.image.channels
        counts = {"INTO": into, "OUT_OF": step.shape.channels}
        return counts | {"TAPPED": known} if tapped else counts

    def forward_tile(self, step: Convolution) -> tiles.Tile:
        into = self.source_shape(step).channels
        return tiles.forward(self.dtype(), into, step.shape.channels, self.positions(step.shape))

    def backward_tile(self, step: Convolution) -> tiles.Tile:
        into = self.source_shape(step).channels
        return tiles.forward(self.dtype(), step.shape.channels, into, self.positions(step.shape))

    # --- a step

    def embed(self) -> None:
        if self.work is not self.parameters:
            self.work.copy_(self.parameters)
        run(self.forward, self.side)

    def gradients(self) -> None:
        self.embed()
        run(self.backward, self.side)
