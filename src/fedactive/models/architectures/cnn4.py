"""The paper's base architecture: four blocks of convolution, BatchNorm, ReLU and max-pooling.

115,658 parameters and an embedding of 256 for 32x32x3 images and 10 classes; embedding 64 at 28x28.
"""

from __future__ import annotations

from typing import final

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedactive.models.classifier import BatchNorm, Classifier, draw_defaults
from fedactive.models.pooled_block import pooled_block, use_pooled_block
from fedactive.models.spec import register

WIDTH = 64


class Block(nn.Module):
    def __init__(self, channels_in: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels_in, WIDTH, 3, padding=1)
        self.norm = BatchNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if use_pooled_block(x, self.norm):
            return pooled_block(x, self.convolution, self.norm)
        x = self.norm(self.convolution(x))
        # ReLU commutes with the maximum, and after pooling it has a quarter of the values to process.
        # Maps of 1x1 (from images smaller than 16x16) are not pooled.
        return F.relu(F.max_pool2d(x, 2) if min(x.shape[2:]) > 1 else x, inplace=True)


@final
@register
class CNN4(Classifier):
    name = "cnn4"
    summary = "four blocks of convolution, BatchNorm, ReLU and max-pooling"
    paper = "Kim et al., CVPR 2023"

    def __init__(self, input_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.blocks = nn.Sequential(*(Block(channels if i == 0 else WIDTH) for i in range(4)))
        for _ in range(4):
            height, width = (height // 2, width // 2) if min(height, width) > 1 else (height, width)
        self.head = nn.Linear(WIDTH * height * width, classes)

    def initialise(self, generator: Generator) -> None:
        draw_defaults(self, generator)

    def embed(self, images: Tensor) -> Tensor:
        z: Tensor = self.blocks(images)
        return z.flatten(1)
