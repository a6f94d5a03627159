"""ResNet-18 (He et al., CVPR 2016) for small images: stem 3x3, stride 1, no pooling; embedding 512."""

from __future__ import annotations

from typing import final

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedactive.models.classifier import BatchNorm, Classifier, draw_defaults
from fedactive.models.spec import register


class ResidualBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = BatchNorm(channels)
        self.convolution2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = BatchNorm(channels, initial_weight=0.0)  # so that every block starts as the identity
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), BatchNorm(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.convolution1(x)))
        y = self.norm2(self.convolution2(y))
        return F.relu(y + self.shortcut(x))


@final
@register
class ResNet18(Classifier):
    name = "resnet18"
    summary = "residual blocks, for small images"
    paper = "He et al., CVPR 2016"

    def __init__(self, input_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(input_shape[0], 64, 3, padding=1, bias=False)
        self.norm = BatchNorm(64)
        blocks = []
        channels_in = 64
        for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [ResidualBlock(channels_in, channels, stride), ResidualBlock(channels, channels, 1)]
            channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def initialise(self, generator: Generator) -> None:
        draw_defaults(self, generator)

    def embed(self, images: Tensor) -> Tensor:
        x: Tensor = self.blocks(F.relu(self.norm(self.stem(images))))
        return x.mean(dim=(2, 3))
