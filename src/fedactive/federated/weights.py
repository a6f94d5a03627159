"""Weights of a model as a plain dictionary of tensors: parameters and BatchNorm buffers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def weighted_mean(weights: Sequence[Weights], counts: Sequence[float]) -> Weights:
    """Θ = Σ_k n_k Θ_k / Σ_k n_k, over parameters and buffers alike; integer buffers are rounded down."""
    total = float(sum(counts))
    names = list(weights[0])
    # Sums run in place over one set of tensors, not over a stack: a thousand clients need no more memory than
    # two. The _foreach functions take all tensors in one go, which matters on a GPU.
    kinds = [v.dtype if v.is_floating_point() else torch.float64 for v in weights[0].values()]
    mean = [torch.zeros_like(weights[0][n], dtype=kind) for n, kind in zip(names, kinds, strict=True)]
    for client, count in zip(weights, counts, strict=True):
        values = [client[n].to(kind) for n, kind in zip(names, kinds, strict=True)]
        torch._foreach_add_(mean, torch._foreach_mul(values, count / total))
    return {n: value.to(weights[0][n].dtype) for n, value in zip(names, mean, strict=True)}


def placed(weights: Weights, device: torch.device) -> Weights:
    """The same weights on `device`; nothing is copied if they are there already."""
    return {name: value.to(device) for name, value in weights.items()}


def zeros_like(weights: Weights, names: Sequence[str]) -> Weights:
    return {name: torch.zeros_like(weights[name]) for name in names}
