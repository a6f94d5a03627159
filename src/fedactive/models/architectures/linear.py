"""A linear model, for features: its embedding is its input."""

from __future__ import annotations

import math
from typing import final

from torch import Generator, Tensor, nn

from fedactive.models.classifier import Classifier, draw_defaults
from fedactive.models.spec import register


@final
@register
class Linear(Classifier):
    name = "linear"
    summary = "a linear model, for features (or the pixels of images)"
    paper = "-"
    dimensions = (1, 3)

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(math.prod(input_shape), classes)

    def initialise(self, generator: Generator) -> None:
        draw_defaults(self, generator)

    def embed(self, images: Tensor) -> Tensor:
        return images.flatten(1)
