"""MobileNet (Howard et al., 2017) for small images: depthwise-separable convolutions; embedding 1024."""

from __future__ import annotations

from typing import final

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedactive.models.classifier import BatchNorm, Classifier, draw_defaults
from fedactive.models.spec import register

# Output channels and stride of each depthwise-separable block.
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


class SeparableBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(
            channels_in, channels_in, 3, stride, padding=1, groups=channels_in, bias=False
        )
        self.norm1 = BatchNorm(channels_in)
        self.pointwise = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.norm2 = BatchNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.depthwise(x)))
        return F.relu(self.norm2(self.pointwise(x)))


@final
@register
class MobileNet(Classifier):
    name = "mobilenet"
    summary = "depthwise-separable convolutions, for small images"
    paper = "Howard et al., 2017"

    def __init__(self, input_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(input_shape[0], 32, 3, padding=1, bias=False)
        self.norm = BatchNorm(32)
        blocks = []
        channels_in = 32
        for channels, stride in BLOCKS:
            blocks.append(SeparableBlock(channels_in, channels, stride))
            channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(1024, classes)

    def initialise(self, generator: Generator) -> None:
        draw_defaults(self, generator)

    def embed(self, images: Tensor) -> Tensor:
        x: Tensor = self.blocks(F.relu(self.norm(self.stem(images))))
        return x.mean(dim=(2, 3))
