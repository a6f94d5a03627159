"""What a model is here: an encoder and a linear head; a forward pass gives logits and embedding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

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
        with torch.no_grad():
            # Sums around the running mean, which is near: one pass over the map, and no digits are lost.
            off = (x.float() - column(self.running_mean)) * here
            distance = off.sum((0, 2, 3)) / values.clamp_min(1)
            variance = off.square().sum((0, 2, 3)) / values.clamp_min(1) - distance.square()
            mean, variance = self.running_mean + distance, variance.clamp_min(0)
            used_mean = torch.where(enough, mean, self.running_mean)
            used_variance = torch.where(enough, variance, self.running_var)
            share = enough * self.momentum
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(variance * (values / (values - 1).clamp_min(1)), share)
            self.num_batches_tracked.add_(enough)
        inverse = (used_variance + self.eps).rsqrt()
        y: Tensor = PartialNorm.apply(  # type: ignore[no-untyped-call]
            x, self.weight, self.bias, used_mean, inverse, here, enough / values.clamp_min(1)
        )
        return y


class PartialNorm(torch.autograd.Function):
    """y = γ·x̂ + β with x̂ = (x - mean)·inverse, where mean and variance are those of x itself.

    dx = γ·inverse·(dy - mean(dy) - x̂·mean(dy·x̂)) over the rows that are here; `share` is one over the number
    of values, or 0 if mean and variance are not those of x.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        inverse: Tensor,
        here: Tensor,
        share: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, inverse, here, share)
        return ((x.float() - column(mean)) * column(inverse * weight) + column(bias)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, here, share = ctx.saved_tensors
        dz = dy.float() * here
        x_hat = (x.float() - column(mean)) * column(inverse)
        d_bias, d_weight = dz.sum((0, 2, 3)), (dz * x_hat).sum((0, 2, 3))
        common = (column(d_bias) + x_hat * column(d_weight)) * share * here
        dx = column(weight * inverse) * (dz - common)
        return dx.to(x.dtype), d_weight, d_bias, None, None, None, None


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
