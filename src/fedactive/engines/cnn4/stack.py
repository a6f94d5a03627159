"""The gradients of many clients' cnn4, in about 35 kernels for all of them together.

One client's network is far too small to fill a GPU. Its first map is too large to be worth storing: see
`first_block`. Activations are kept in bfloat16 or float32, sums and weights always in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
import triton
from torch import Tensor

from fedactive.engines.cnn4 import blocks, first_block
from fedactive.engines.cnn4.head import head
from fedactive.engines.cnn4.norm import ROWS
from fedactive.engines.kernel_stack import KernelStack
from fedactive.federated.local_sgd import Recipe
from fedactive.models import Classifier
from fedactive.models.architectures.cnn4 import CNN4, WIDTH

SMALLEST = 16  # the narrowest matrix that the tensor cores take
HIGHEST = 128  # the largest batch whose logits one program can compute


@dataclass(frozen=True)
class Tuning:
    """How the work is divided among programs; chosen by measurement on an H200."""

    weight_parts: int  # programs that share the sum over positions in a weight gradient
    weight_positions: int  # that such a program processes at a time
    first_parts: int = 128  # programs that share one client's backward pass through the first block
    first_windows: int = 16  # windows of 2x2 positions that such a program processes at a time
    patch_parts: int = 64  # programs that share one client's sum over patches
    positions: int = 128  # of a map, for one program
    windows: int = 32


TUNING = {
    torch.bfloat16: Tuning(weight_parts=8, weight_positions=64),
    torch.float32: Tuning(weight_parts=16, weight_positions=32),
}


@final
class CNN4Stack(KernelStack):
    @classmethod
    def supports(cls, model: Classifier, images: Tensor, recipe: Recipe) -> bool:
        """Return whether the kernels support this network, and the tensor cores this precision."""
        known = isinstance(model, CNN4) and min(images.shape[2:]) >= 16
        most = min(HIGHEST, cls.most_images(model, images.shape[1:]))
        return known and recipe.batch_size <= most and recipe.precision != "fp32"

    @classmethod
    def most_images(cls, model: Classifier, shape: Sequence[int]) -> int:
        _, height, breadth = shape
        return (2**31 - 1) // (WIDTH * (height // 2) * (breadth // 2))

    @classmethod
    def bytes_per_image(cls, model: Classifier, shape: Sequence[int], recipe: Recipe) -> int:
        _, height, breadth = shape
        places = [(height >> i) * (breadth >> i) for i in (1, 2, 3, 4)]
        values = 2 * WIDTH * (sum(places) + sum(places[:3]))
        return values * (2 if recipe.precision == "bf16" else 4)

    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.recipe.precision == "bf16" else torch.float32

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tuning = tuning = TUNING[self.dtype()]
        batch = self.recipe.batch_size
        _, into, height, breadth = self.images.shape
        self.sizes = [(height >> i, breadth >> i) for i in range(5)]
        self.here = self.present.view(torch.uint8)
        patch = triton.next_power_of_2(max(SMALLEST, 9 * into + 1))

        def map_of(i: int) -> Tensor:
            return self.zeros(batch, *self.sizes[i], WIDTH, dtype=self.dtype())

        # x[i] is the input of block i, y[i] its convolution (not kept for the first one), x[4] the embedding.
        self.x = [self.batch, *(map_of(i) for i in (1, 2, 3, 4))]
        self.dx = [self.zeros(0), *(map_of(i) for i in (1, 2, 3, 4))]
        self.y = [self.zeros(0), *(map_of(i) for i in (1, 2, 3))]
        self.dy = [self.zeros(0), *(map_of(i) for i in (1, 2, 3))]
        self.norm = [self.zeros(ROWS, WIDTH) for _ in range(4)]
        self.patch_parts = self.zeros(tuning.patch_parts, patch, patch)
        self.patch_sums = self.zeros(patch, patch)
        self.first_parts = self.zeros(tuning.first_parts, patch + 2, WIDTH)
        self.first_sums = self.zeros(patch + 2, WIDTH)
        self.sums = [self.zeros(self.programs(i), 3, WIDTH) for i in range(4)]
        self.window_sums = [self.zeros(self.window_programs(i), 2, WIDTH) for i in range(4)]
        self.weight_parts = [self.zeros(self.weight_programs(i), WIDTH * 9 * WIDTH) for i in range(4)]

        # Arguments that several kernels share.
        self.lengths = {"LENGTH": self.layout.length}
        self.batches = {"BATCH": batch, "PADDED": triton.next_power_of_2(max(SMALLEST, batch))}
        self.patches = {"INTO": into, "PATCH": patch}
        self.precision = {"PRECISION": "ieee" if self.recipe.precision == "fp32" else "tf32"}

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(self.width, *shape, dtype=dtype, device=self.parameters.device)

    def programs(self, i: int) -> int:
        """Count the programs per client for the positions of block i's map."""
        height, breadth = self.sizes[i]
        return -(-self.recipe.batch_size * height * breadth // self.tuning.positions)

    def window_programs(self, i: int) -> int:
        """Count the programs per client for its 2x2 windows, including those cut off at the edge."""
        height, breadth = self.sizes[i]
        return -(-self.recipe.batch_size * -(-height // 2) * -(-breadth // 2) // self.tuning.windows)

    def weight_programs(self, i: int) -> int:
        """Count the parts into which block i's weight gradient divides its sum over positions."""
        return max(1, min(self.tuning.weight_parts, self.programs(i) // 8))

    def shape(self, i: int) -> dict[str, int]:
        height, breadth = self.sizes[i]
        return {"BATCH": self.recipe.batch_size, "HEIGHT": height, "BREADTH": breadth}

    def area(self, i: int) -> dict[str, int]:
        height, breadth = self.sizes[i]
        return {"AREA": height * breadth}

    def of(self, rows: Tensor, i: int, *names: str) -> list[Tensor]:
        """Return views of block i's tensors of these names, in all rows."""
        return [self.layout.view(rows, f"blocks.{i}.{name}") for name in names]

    def norm_arguments(self, i: int) -> list[Tensor]:
        """List what every computation of statistics reads and writes beside its sums."""
        parameters = self.of(self.parameters, i, "convolution.bias", "norm.weight", "norm.bias")
        # The variance follows the mean in memory.
        running = self.buffer_layout.view(self.statistics, f"blocks.{i}.norm.running_mean")
        return [*parameters, running, self.buffers[f"blocks.{i}.norm.num_batches_tracked"], self.norm[i]]

    def embed(self) -> Tensor:
        self.first_forward()
        for i in (1, 2, 3):
            self.forward(i)
        return self.x[4].float().movedim(-1, 2).flatten(2)  # the model has channels first, then places

    def gradients(self) -> None:
        self.embed()
        self.head()
        for i in (3, 2, 1):
            self.backward(i)
        self.first_backward()

    def first_forward(self) -> None:
        (weight,) = self.of(self.rounded, 0, "convolution.weight")
        known = self.shape(0) | self.patches | self.precision
        first_block.patch_sums[(self.width, self.tuning.patch_parts)](
            self.x[0], self.here, self.patch_parts, BLOCK=self.tuning.positions, **known
        )
        torch.sum(self.patch_parts, 1, out=self.patch_sums)
        first_block.first_statistics[(self.width,)](
            self.patch_sums, self.here, weight, *self.norm_arguments(0),
            RUNNING=self.buffer_layout.length, **self.lengths, **self.batches, **self.area(0), **self.patches,
        )  # fmt: skip
        first_block.first_forward[(self.width, self.programs(1))](
            self.x[0], weight, self.norm[0], self.x[1], BLOCK=self.tuning.positions, **self.lengths, **known
        )

    def forward(self, i: int) -> None:
        (weight,) = self.of(self.rounded, i, "convolution.weight")
        blocks.convolve[(self.width, self.programs(i))](
            self.x[i], weight, self.here, self.y[i], self.sums[i],
            BACKWARD=False, BLOCK=self.tuning.positions, **self.lengths, **self.shape(i), **self.precision,
        )  # fmt: skip
        blocks.statistics[(self.width,)](
            self.sums[i], self.programs(i), *self.norm_arguments(i),
            RUNNING=self.buffer_layout.length, ROWS=SMALLEST, **self.lengths,
        )  # fmt: skip
        blocks.pool[(self.width, self.window_programs(i))](
            self.y[i], self.norm[i], self.x[i + 1], BLOCK=self.tuning.windows, **self.shape(i)
        )

    def head(self) -> None:
        classes = self.model.head.out_features
        parameters = [self.layout.view(self.parameters, name) for name in ("head.weight", "head.bias")]
        gradients = [self.layout.view(self.gradient, name) for name in ("head.weight", "head.bias")]
        head[(self.width,)](
            self.x[4], *parameters, self.targets, self.here, self.dx[4], *gradients,
            CLASSES=classes, COLUMNS=triton.next_power_of_2(max(SMALLEST, classes)),
            **self.lengths, **self.batches, **self.area(4),
        )  # fmt: skip

    def backward(self, i: int) -> None:
        (weight,) = self.of(self.rounded, i, "convolution.weight")
        grid, known = (self.width, self.window_programs(i)), self.shape(i) | {"BLOCK": self.tuning.windows}
        arguments = (self.y[i], self.norm[i], self.here, self.dx[i + 1], self.window_sums[i], self.dy[i])
        blocks.pool_backward[grid](*arguments, SPREAD=False, **known)
        blocks.norm_gradient[(self.width,)](
            self.window_sums[i], self.window_programs(i), self.here, self.norm[i],
            *self.of(self.gradient, i, "norm.weight", "norm.bias"),
            ROWS=SMALLEST, **self.lengths, **self.batches, **self.area(i),
        )  # fmt: skip
        blocks.pool_backward[grid](*arguments, SPREAD=True, **known)
        blocks.convolve[(self.width, self.programs(i))](
            self.dy[i], weight, self.here, self.dx[i], self.sums[i],
            BACKWARD=True, BLOCK=self.tuning.positions, **self.lengths, **self.shape(i), **self.precision,
        )  # fmt: skip
        blocks.weight_gradient[(self.width, 3, self.weight_programs(i))](
            self.x[i], self.dy[i], self.weight_parts[i],
            BLOCK=self.tuning.weight_positions, **self.shape(i), **self.precision,
        )  # fmt: skip
        begin, size = self.layout.places[f"blocks.{i}.convolution.weight"]
        torch.sum(self.weight_parts[i], 1, out=self.gradient[:, begin : begin + size.numel()])

    def first_backward(self) -> None:
        (weight,) = self.of(self.rounded, 0, "convolution.weight")
        first_block.first_backward[(self.width, self.tuning.first_parts)](
            self.x[0], self.here, weight, self.norm[0], self.dx[1], self.first_parts,
            BLOCK=self.tuning.first_windows,
            **self.lengths, **self.shape(0), **self.patches, **self.precision,
        )  # fmt: skip
        torch.sum(self.first_parts, 1, out=self.first_sums)
        first_block.first_gradient[(self.width,)](
            self.first_sums, self.patch_sums, self.here, weight, self.norm[0],
            *self.of(self.gradient, 0, "convolution.weight", "norm.weight", "norm.bias"),
            **self.lengths, **self.batches, **self.area(0), **self.patches,
        )  # fmt: skip
