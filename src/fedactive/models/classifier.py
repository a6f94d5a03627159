"""A model is an encoder and a linear head; a forward pass returns logits and embedding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedactive.models.published import PublishedWeights


class Classifier(nn.Module, ABC):
    """Maps samples to logits (n, C) and embedding z (n, d); logits = head(z).

    Samples are images (n, channels, height, width) or, for models that say so, features (n, d).

    A model is made as `Model(input_shape, classes, **options)`; its options are class attributes made with
    `fedactive.options.option`. While its constructor runs, PyTorch's global generator has the run's seed.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive models`
    paper: ClassVar[str]

    dimensions: ClassVar[tuple[int, ...]] = (3,)  # of a sample: 3 of an image, 1 of features
    published: ClassVar[PublishedWeights | None] = None  # weights to begin with, where there are any

    head: nn.Linear
    draws: bool = False  # does training draw random numbers, as dropout does? Set by the engine

    @abstractmethod
    def embed(self, images: Tensor) -> Tensor:
        """Compute the embedding z before the last layer."""

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        z = self.embed(images)
        return self.head(z), z

    def initialise(self, generator: torch.Generator) -> None:
        """Draw initial weights. By default the constructor's stay."""


class BatchNorm(nn.BatchNorm2d):
    """BatchNorm that also accepts a batch with one value per channel, and a partly filled batch.

    The last batch of an epoch can hold a single sample, and small images end as 1x1 maps: such a batch has
    no variance, so it is normalised with the running statistics and leaves them as they are.

    An engine that trains many clients in step gives all of them batches of one size, in which some rows may
    be empty: `present` (n,) says which rows count; None means all. The statistics after such a batch go to
    `mean_after` and `variance_after`, not into the running ones: compiled code must not overwrite what the
    backward pass may read again.

    If it is `fixed`, it keeps the statistics that it begins with, and is a scale and a shift per channel.
    Those of published weights come from millions of images. A batch of a few labels of a client that has only
    some of the classes has others, and their mean over clients fits nobody.
    """

    fixed: bool = False
    present: Tensor | None
    mean_after: Tensor | None
    variance_after: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def __init__(self, channels: int, initial_weight: float = 1.0) -> None:
        super().__init__(channels)
        self.initial_weight = initial_weight
        for name in ("present", "mean_after", "variance_after"):
            self.register_buffer(name, None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        if self.present is not None and not self.fixed:
            return self.partial(x, self.present)
        if self.fixed or x.numel() == x.shape[1]:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)

    def partial(self, x: Tensor, present: Tensor) -> Tensor:
        """Normalise as `forward` would the rows that are present, without waiting for their number."""
        assert self.mean_after is not None
        assert self.variance_after is not None
        here = present.float()[:, None, None, None]
        values = here.sum() * x[0, 0].numel()
        enough = values > 1
        # Sums around the running mean, which is close: one pass over the map, without loss of digits.
        off = x.float() - column(self.running_mean)
        distance = (off * here).sum((0, 2, 3)) / values.clamp_min(1)
        squares = (off.square() * here).sum((0, 2, 3)) / values.clamp_min(1)
        variance = (squares - distance.square()).clamp_min(0)
        with torch.no_grad():
            share = enough * self.momentum
            unbiased = variance * (values / (values - 1).clamp_min(1))
            self.mean_after.copy_(self.running_mean + share * distance)
            self.variance_after.copy_(torch.lerp(self.running_var, unbiased, share))
            self.num_batches_tracked.add_(enough)
        distance = torch.where(enough, distance, 0.0)
        scale = self.weight * (torch.where(enough, variance, self.running_var) + self.eps).rsqrt()
        # A factor and a summand per channel: the backward pass then needs two sums over the map, not three.
        return (off * column(scale) + column(self.bias - distance * scale)).to(x.dtype)


def column(values: Tensor) -> Tensor:
    """Shape one value per channel so that it broadcasts over a map."""
    return values[:, None, None]


def draw_defaults(model: nn.Module, generator: torch.Generator) -> None:
    """Draw convolutions and linear layers from PyTorch's default distributions; reset `BatchNorm`s."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, BatchNorm):
            module.reset_parameters()
            nn.init.constant_(module.weight, module.initial_weight)
