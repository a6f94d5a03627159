"""A network with one hidden layer, for features."""

from __future__ import annotations

import math
from typing import final

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedactive.models.classifier import Classifier, draw_defaults
from fedactive.models.spec import register
from fedactive.options import option


@final
@register
class MLP(Classifier):
    name = "mlp"
    summary = "one hidden layer, for features (or the pixels of images)"
    paper = "-"
    dimensions = (1, 3)

    width: int = option(256, "units of the hidden layer, which are the embedding", low=1, high=65_536)

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(math.prod(input_shape), width)
        self.head = nn.Linear(width, classes)

    def initialise(self, generator: Generator) -> None:
        draw_defaults(self, generator)

    def embed(self, images: Tensor) -> Tensor:
        return F.relu(self.hidden(images.flatten(1)))
