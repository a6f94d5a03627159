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
    """BatchNorm that also takes a batch with one value per channel.

    The last batch of an epoch can hold a single sample, and small images end as 1x1 maps: such a batch has
    no variance, so it is normalised with the running statistics and leaves them as they are.
    """

    def __init__(self, channels: int, initial_weight: float = 1.0) -> None:
        super().__init__(channels)
        self.initial_weight = initial_weight

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


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
