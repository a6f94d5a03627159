"""What a model is here: an encoder and a linear head; a forward pass gives logits and embedding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Classifier(nn.Module, ABC):
    """Images (n, channels, height, width) to (logits (n, C), embedding z (n, d)) with logits = head(z)."""

    head: nn.Linear

    @abstractmethod
    def embed(self, images: Tensor) -> Tensor:
        """The embedding z before the last layer."""

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        z = self.embed(images)
        return self.head(z), z


class BatchNorm(nn.BatchNorm2d):
    """BatchNorm that also takes a batch with one value per channel, and one that is only partly filled.

    The last batch of an epoch can hold a single sample, and small images end as 1x1 maps: such a batch has
    no variance, so it is normalised with the running statistics and leaves them as they are.

    An engine that trains many clients in step gives all of them batches of one size, of which some rows may
    be empty: `present` (n,) says which rows count, None that all do.
    """

    present: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def __init__(self, channels: int, initial_weight: float = 1.0) -> None:
        super().__init__(channels)
        self.initial_weight = initial_weight
        self.register_buffer("present", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        if self.present is not None:
            return self.partial(x, self.present)
        if x.numel() == x.shape[1]:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)

    def partial(self, x: Tensor, present: Tensor) -> Tensor:
        """The same as `forward` on the rows that are present, without asking the device how many are."""
        here = present.float()[:, None, None, None]
        values = here.sum() * x[0, 0].numel()
        enough = values > 1
        wide = x.float()
        mean = (wide * here).sum((0, 2, 3)) / values.clamp_min(1)
        variance = ((wide - column(mean)).square() * here).sum((0, 2, 3)) / values.clamp_min(1)
        with torch.no_grad():
            before = self.running_mean.clone(), self.running_var.clone()
            share = enough * self.momentum
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(variance * (values / (values - 1).clamp_min(1)), share)
            self.num_batches_tracked.add_(enough)
        mean = torch.where(enough, mean, before[0])
        variance = torch.where(enough, variance, before[1])
        scale = self.weight * (variance + self.eps).rsqrt()
        return ((wide - column(mean)) * column(scale) + column(self.bias)).to(x.dtype)


def column(values: Tensor) -> Tensor:
    """One value per channel, shaped to meet a map."""
    return values[:, None, None]


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Set every weight and buffer afresh: PyTorch's default distributions, drawn from `generator`."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, BatchNorm):
            module.reset_parameters()
            nn.init.constant_(module.weight, module.initial_weight)
