"""Weights of a model as a plain dictionary of tensors: parameters and BatchNorm buffers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def weighted_mean(weights: Sequence[Weights], counts: Sequence[float]) -> Weights:
    """Θ = Σ_k n_k Θ_k / Σ_k n_k, over parameters and buffers alike; integer buffers are rounded down."""
    total = float(sum(counts))
    mean: Weights = {}
    for name, first in weights[0].items():
        # A running sum, not a stack: a thousand clients need no more memory than two.
        value = torch.zeros_like(first, dtype=torch.float64 if not first.is_floating_point() else first.dtype)
        for client, count in zip(weights, counts, strict=True):
            value += client[name] * (count / total)
        mean[name] = value.to(first.dtype)
    return mean


def placed(weights: Weights, device: torch.device) -> Weights:
    """The same weights on `device`; nothing is copied if they are there already."""
    return {name: value.to(device) for name, value in weights.items()}


def zeros_like(weights: Weights, names: Sequence[str]) -> Weights:
    return {name: torch.zeros_like(weights[name]) for name in names}
