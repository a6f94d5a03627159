"""The gradients of many clients for a model made of known layers: each kernel runs for all of them at once.

One client's network is too small to fill a GPU. Activations are kept in bfloat16 or float32, sums and weights
always in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor
from torch.func import vmap

from fedactive.engines.kernel_stack import KernelStack
from fedactive.engines.layers import tiles
from fedactive.engines.layers.backward import Backward
from fedactive.engines.layers.first_launches import FirstBlock
from fedactive.engines.layers.forward import forward_launches
from fedactive.engines.layers.launch import Launch, Program
from fedactive.engines.layers.network import Convolution, Join, Shape, network_of
from fedactive.engines.layers.norm import ROWS
from fedactive.engines.layers.trace import OtherLayerError
from fedactive.engines.layout import RowLayout
from fedactive.engines.plan import has_keys
from fedactive.engines.stack import CROSS_ENTROPY
from fedactive.engines.step_kernels import gather
from fedactive.federated.local_sgd import Recipe
from fedactive.models import Classifier

STEPS = 4  # in one graph; more of them gain nothing
MOST_SAMPLES = 128  # of a batch whose logits one program can compute
MOST_CLASSES = 256


@final
class LayerStack(KernelStack):
    @classmethod
    def supports(cls, model: Classifier, images: Tensor, recipe: Recipe) -> bool:
        """Return whether the model is made of known layers, and the tensor cores know this precision."""
        if recipe.precision == "fp32" or model.head.out_features > MOST_CLASSES:
            return False
        try:
            most = cls.most_images(model, images.shape[1:])
        except OtherLayerError:
            return False
        return recipe.batch_size <= min(MOST_SAMPLES, most)

    @classmethod
    def most_images(cls, model: Classifier, shape: Sequence[int]) -> int:
        network = network_of(model, tuple(shape))
        patches = network.steps[0].shape.area * network.patch
        largest = max(step.shape.area * step.shape.channels for step in network.steps)
        return (2**31 - 1) // max(patches, largest)

    @classmethod
    def bytes_per_image(cls, model: Classifier, shape: Sequence[int], recipe: Recipe) -> int:
        network = network_of(model, tuple(shape))
        steps, values = network.steps, network.steps[0].shape.area * network.patch
        # A convolution has one map, which its gradient replaces; a join has a map and a gradient.
        kept = [1 if isinstance(step, Convolution) else 2 for step in steps]
        values += sum(n * step.shape.area * step.shape.channels for n, step in zip(kept, steps, strict=True))
        return values * (2 if recipe.precision == "bf16" else 4)

    def lay_out(self, model: Classifier) -> RowLayout:
        alone = [s.weight for s in self.network.steps if isinstance(s, Convolution) and s.depthwise]
        return RowLayout.of(model.named_parameters(), turned=alone)

    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.recipe.precision == "bf16" else torch.float32

    def __init__(self, model: Classifier, images: Tensor, *arguments: Any) -> None:
        self.network = network = network_of(model, tuple(images.shape[1:]))
        super().__init__(model, images, *arguments)
        batch = self.recipe.batch_size
        steps = network.steps
        convolutions = [step for step in steps if isinstance(step, Convolution)]
        joins = [step for step in steps if isinstance(step, Join)]
        self.here = self.present.view(torch.uint8)
        stored = convolutions[1:] if network.first_block() else convolutions
        self.raw = {step.number: self.map_of(step.shape) for step in stored}
        self.maps = {step.number: self.map_of(step.shape) for step in joins}
        self.norm = {step.number: self.zeros(ROWS, step.shape.channels) for step in convolutions}
        first = convolutions[0].shape
        self.patches = self.map_of(Shape(first.height, first.breadth, network.patch))
        self.z = self.zeros(batch, network.features)
        self.dz = torch.zeros_like(self.z)
        self.batches = {"BATCH": batch, "PADDED": tiles.power(max(tiles.SMALLEST, batch))}
        self.precision = {"PRECISION": "ieee" if self.recipe.precision == "fp32" else "tf32"}
        self.shared = self.zeros(0)
        block = network.first_block()
        self.first = FirstBlock(self, *block) if block else None
        self.forward = forward_launches(self)
        self.run_forward = Program(self.forward, self.width, self.images.device)

    @cached_property
    def run_all(self) -> Program:
        return Program([*self.forward, *self.backward], self.width, self.images.device)

    @cached_property
    def run_backward(self) -> Program:
        return Program(self.backward, self.width, self.images.device)

    @cached_property
    def backward(self) -> list[Launch]:
        """Inference does not need these launches, nor their memory.

        For objectives of which the head's kernel knows nothing they begin at the embedding's gradient.
        """
        return Backward(self, own_head=self.lessons.objective == CROSS_ENTROPY).launches

    # --- memory

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(self.width, *shape, dtype=dtype, device=self.parameters.device)

    def map_of(self, shape: Shape) -> Tensor:
        batch = self.recipe.batch_size
        return self.zeros(batch, shape.height, shape.breadth, shape.channels, dtype=self.dtype())

    def scratch(self, parts: int, values: int) -> Tensor:
        """Return memory that one launch fills and the next one reads; all of them share it."""
        if self.shared.shape[1] < parts * values:
            self.shared = self.zeros(parts * values)
        return self.shared[:, : parts * values].view(self.width, parts, values)

    # --- what launches share

    def positions(self, shape: Shape) -> int:
        return self.recipe.batch_size * shape.area

    def grid(self, shape: Shape, tile: tiles.Tile) -> tuple[int, int, int]:
        """Return the programs of a pass over a map."""
        blocks = math.ceil(self.positions(shape) / (tile["BLOCK"] * tile.get("STEPS", 1)))
        return blocks, math.ceil(shape.channels / tile["C"]), self.width

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
        return {
            "BATCH": batch,
            "HEIGHT": shape.height,
            "BREADTH": shape.breadth,
            "SIZE": size,
            "STRIDE": stride,
        }

    def channels(self, step: Convolution, tapped: bool = True) -> dict[str, int]:
        into = self.source_shape(step).channels
        known = into if step.source else step.size**2 * self.network.image.channels
        counts = {"INTO": into, "OUT_OF": step.shape.channels}
        return counts | {"TAPPED": known} if tapped else counts

    def product_tile(self, step: Convolution, back: bool) -> tiles.Tile:
        """Return the tile of a convolution, or of its gradient with respect to the input."""
        known = self.channels(step)
        depth, channels = (known["OUT_OF"], known["INTO"]) if back else (known["INTO"], known["OUT_OF"])
        programs = self.width * math.ceil(self.positions(step.shape) / 128) * math.ceil(channels / 128)
        size = self.geometry(step)["SIZE"]
        return tiles.product(self.dtype(), depth, channels, size, programs, back)

    # --- steps

    def steps_at_once(self) -> int:
        """Clients need not wait for each other after each step where kernels make all of it."""
        fetched = self.normalise.of_images and not has_keys(self.recipe)
        return STEPS if fetched and self.lessons.objective == CROSS_ENTROPY else 1

    def make_steps(self, count: int) -> None:
        if len(self.rows) == 1:
            super().make_steps(count)
        else:
            self.programs[count]()

    @cached_property
    def programs(self) -> dict[int, Program]:
        step = [gather(self), *self.forward, *self.backward]
        steps = [launch.instead(self.row, row) for row in self.rows for launch in step]
        return {
            count: Program(steps[: count * len(step)], self.width, self.images.device)
            for count in (1, len(self.rows))
        }

    def embed(self) -> Tensor:
        self.run_forward()
        return self.z

    def learn(self) -> None:
        if self.lessons.objective == CROSS_ENTROPY:
            self.run_all()
        else:
            self.run_forward()
            self.learn_head()
            self.run_backward()

    def learn_head(self) -> None:
        """Do what the head's kernel does, for any objective: the gradients of the head and of its input."""
        names = ("head.weight", "head.bias")
        weight, bias = (self.layout.view(self.parameters, name) for name in names)
        logits = torch.baddbmm(bias[:, None], self.z, weight.mT).requires_grad_()
        losses = vmap(self.lessons.loss)(logits, self.targets, self.present, self.lessons.told)
        (d,) = torch.autograd.grad(losses.sum(), logits)
        d_weight, d_bias = (self.layout.view(self.gradient, name) for name in names)
        d_weight.copy_(d.mT @ self.z)
        d_bias.copy_(d.sum(1))
        self.dz.copy_(d @ weight)
