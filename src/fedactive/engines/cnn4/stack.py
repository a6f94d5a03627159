"""The gradients of many clients' cnn4, about 35 kernels for all of them together.

One client's network is far too small for a GPU, and its first map far too large to be worth storing: see
`first_block`. Activations are kept in bfloat16 or float32, sums and weights always in float32.
"""

from __future__ import annotations

from typing import Any, final

import torch
import triton
from torch import Tensor

from fedactive.engines.cnn4 import blocks, first_block
from fedactive.engines.cnn4.head import head
from fedactive.engines.cnn4.norm import ROWS
from fedactive.engines.stack import Stack
from fedactive.models.cnn4 import CNN4, WIDTH

BLOCK = 128  # positions that one program works on
WINDOWS = 32  # the same for windows of four positions
PARTS = 32  # programs that share one client's sums over a whole batch
SMALLEST = 16  # the narrowest matrix that the tensor cores take


@final
class CNN4Stack(Stack):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        assert isinstance(self.model, CNN4)
        device, width, batch = self.parameters.device, self.width, self.recipe.batch_size
        kind = torch.bfloat16 if self.recipe.precision == "bf16" else torch.float32
        self.precision = "ieee" if self.recipe.precision == "fp32" else "tf32"
        self.work = torch.zeros_like(self.parameters, dtype=kind)  # the weights as convolutions read them
        _, self.into, height, breadth = self.images.shape
        self.patch = triton.next_power_of_2(max(SMALLEST, 9 * self.into + 1))
        self.padded = triton.next_power_of_2(max(SMALLEST, batch))
        self.sizes = [(height >> i, breadth >> i) for i in range(5)]

        def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(width, *shape, dtype=dtype, device=device)

        # x[i] goes into block i, y[i] is its convolution (not kept for the first one), x[4] the embedding.
        self.x = [
            room(batch, h, b, WIDTH if i else self.into, dtype=kind) for i, (h, b) in enumerate(self.sizes)
        ]
        self.y = [
            room(batch, h, b, WIDTH, dtype=kind) if i else room(0) for i, (h, b) in enumerate(self.sizes[:4])
        ]
        self.dx = [torch.zeros_like(x) for x in self.x]
        self.dy = [torch.zeros_like(y) for y in self.y]
        self.norm = [room(ROWS, WIDTH) for _ in range(4)]
        self.patch_parts, self.patch_sums = room(PARTS, self.patch, self.patch), room(self.patch, self.patch)
        self.first_parts, self.first_sums = room(PARTS, self.patch, WIDTH), room(PARTS, 2, WIDTH)
        self.sums = [room(self.programs(i), 3, WIDTH) for i in range(4)]
        self.window_sums = [room(self.windows(i), 2, WIDTH) for i in range(4)]
        self.weight_parts = [room(self.shares(i), WIDTH * 9 * WIDTH) for i in range(4)]

    @staticmethod
    def takes(model: object, images: Tensor, batch: int) -> bool:
        """Is this a network that the kernels know: four times halved, and a batch that fits one program?"""
        return isinstance(model, CNN4) and min(images.shape[2:]) >= 16 and batch <= 128

    def programs(self, i: int) -> int:
        """Programs per client, for the positions of block i's map."""
        return -(-self.recipe.batch_size * self.sizes[i][0] * self.sizes[i][1] // BLOCK)

    def windows(self, i: int) -> int:
        """Programs per client, for the 2x2 windows of block i's map, those cut off at the edge included."""
        height, breadth = self.sizes[i]
        return -(-self.recipe.batch_size * -(-height // 2) * -(-breadth // 2) // WINDOWS)

    def shares(self, i: int) -> int:
        """Into how many parts the sum over positions is cut in block i's weight gradient."""
        return max(1, min(16, self.programs(i) // 8))

    def of(self, rows: Tensor, i: int, name: str) -> Tensor:
        """Block i's tensor of this name, in all rows."""
        layout = self.buffer_layout if "running" in name else self.layout
        return layout.view(rows, f"blocks.{i}.{name}")

    def gradients(self, images: Tensor, targets: Tensor, present: Tensor) -> None:
        here = present.to(torch.int8)
        self.work.copy_(self.parameters)
        self.x[0].copy_(images.permute(0, 1, 3, 4, 2))
        self.first_forward(here)
        for i in (1, 2, 3):
            self.forward(i, here)
        self.head(targets, here)
        for i in (3, 2, 1):
            self.backward(i, here)
        self.first_backward(here)

    def settings(self, i: int) -> dict[str, Any]:
        height, breadth = self.sizes[i]
        return {"BATCH": self.recipe.batch_size, "HEIGHT": height, "BREADTH": breadth}

    def norm_arguments(self, i: int) -> list[Tensor]:
        """What every computation of statistics reads and writes beside its sums."""
        parameters = [
            self.of(self.parameters, i, name) for name in ("convolution.bias", "norm.weight", "norm.bias")
        ]
        running = self.of(self.statistics, i, "norm.running_mean")  # running_var follows at once
        return [*parameters, running, self.counters[f"blocks.{i}.norm.num_batches_tracked"], self.norm[i]]

    def first_forward(self, here: Tensor) -> None:
        height, breadth = self.sizes[0]
        shape = self.settings(0) | {"INTO": self.into, "PATCH": self.patch, "PRECISION": self.precision}
        weight = self.of(self.work, 0, "convolution.weight")
        first_block.patch_sums[(self.width, PARTS)](self.x[0], here, self.patch_parts, BLOCK=BLOCK, **shape)
        first_block.first_statistics[(self.width,)](
            self.patch_parts, PARTS, self.patch_sums, here, weight, *self.norm_arguments(0),
            LENGTH=self.layout.length, RUNNING=self.buffer_layout.length, BATCH=self.recipe.batch_size,
            PADDED=self.padded, AREA=height * breadth, INTO=self.into, PATCH=self.patch,
        )  # fmt: skip
        first_block.first_forward[(self.width, self.programs(1))](
            self.x[0], weight, self.norm[0], self.x[1], LENGTH=self.layout.length, BLOCK=BLOCK, **shape
        )

    def forward(self, i: int, here: Tensor) -> None:
        shape, weight = self.settings(i), self.of(self.work, i, "convolution.weight")
        blocks.convolve[(self.width, self.programs(i))](
            self.x[i], weight, here, self.y[i], self.sums[i],
            LENGTH=self.layout.length, BACKWARD=False, BLOCK=BLOCK, PRECISION=self.precision, **shape,
        )  # fmt: skip
        blocks.statistics[(self.width,)](
            self.sums[i], self.programs(i), *self.norm_arguments(i),
            LENGTH=self.layout.length, RUNNING=self.buffer_layout.length, ROWS=SMALLEST,
        )  # fmt: skip
        blocks.pool[(self.width, self.windows(i))](
            self.y[i], self.norm[i], self.x[i + 1], BLOCK=WINDOWS, **shape
        )

    def head(self, targets: Tensor, here: Tensor) -> None:
        classes = self.model.head.out_features
        arguments = [self.layout.view(self.parameters, name) for name in ("head.weight", "head.bias")]
        results = [self.layout.view(self.gradient, name) for name in ("head.weight", "head.bias")]
        head[(self.width,)](
            self.x[4], *arguments, targets.contiguous(), here, self.dx[4], *results,
            LENGTH=self.layout.length, BATCH=self.recipe.batch_size, PADDED=self.padded,
            AREA=self.sizes[4][0] * self.sizes[4][1], CLASSES=classes,
            COLUMNS=triton.next_power_of_2(max(SMALLEST, classes)),
        )  # fmt: skip

    def backward(self, i: int, here: Tensor) -> None:
        shape, weight = self.settings(i), self.of(self.work, i, "convolution.weight")
        height, breadth = self.sizes[i]
        grid = (self.width, self.windows(i))
        arguments = (self.y[i], self.norm[i], here, self.dx[i + 1], self.window_sums[i], self.dy[i])
        blocks.pool_backward[grid](*arguments, SPREAD=False, BLOCK=WINDOWS, **shape)
        blocks.norm_gradient[(self.width,)](
            self.window_sums[i], self.windows(i), here, self.norm[i],
            self.of(self.gradient, i, "norm.weight"), self.of(self.gradient, i, "norm.bias"),
            LENGTH=self.layout.length, BATCH=self.recipe.batch_size, PADDED=self.padded,
            AREA=height * breadth, ROWS=SMALLEST,
        )  # fmt: skip
        blocks.pool_backward[grid](*arguments, SPREAD=True, BLOCK=WINDOWS, **shape)
        blocks.convolve[(self.width, self.programs(i))](
            self.dy[i], weight, here, self.dx[i], self.sums[i],
            LENGTH=self.layout.length, BACKWARD=True, BLOCK=BLOCK, PRECISION=self.precision, **shape,
        )  # fmt: skip
        blocks.weight_gradient[(self.width, 3, self.shares(i))](
            self.x[i], self.dy[i], self.weight_parts[i], BLOCK=64, PRECISION=self.precision, **shape
        )
        begin, size = self.layout.places[f"blocks.{i}.convolution.weight"]
        torch.sum(self.weight_parts[i], 1, out=self.gradient[:, begin : begin + size.numel()])

    def first_backward(self, here: Tensor) -> None:
        shape = self.settings(0) | {"INTO": self.into, "PATCH": self.patch, "PRECISION": self.precision}
        weight, (height, breadth) = self.of(self.work, 0, "convolution.weight"), self.sizes[0]
        first_block.first_backward[(self.width, PARTS)](
            self.x[0], here, weight, self.norm[0], self.dx[1], self.first_parts, self.first_sums,
            LENGTH=self.layout.length, BLOCK=32, **shape,
        )  # fmt: skip
        names = ("convolution.weight", "norm.weight", "norm.bias")
        first_block.first_gradient[(self.width,)](
            self.first_parts, self.first_sums, PARTS, self.patch_sums, here, weight, self.norm[0],
            *[self.of(self.gradient, 0, name) for name in names],
            LENGTH=self.layout.length, BATCH=self.recipe.batch_size, PADDED=self.padded,
            AREA=height * breadth, INTO=self.into, PATCH=self.patch,
        )  # fmt: skip
