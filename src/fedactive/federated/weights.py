"""Weights of a model as a plain dictionary of tensors: parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def weighted_mean(weights: Sequence[Weights], counts: Sequence[float]) -> Weights:
    """Compute Θ = Σ_k n_k Θ_k / Σ_k n_k over parameters and buffers; integer buffers are rounded."""
    total = float(sum(counts))
    first = weights[0]
    mean: Weights = {}
    for names, kind in ((float_names(first), None), (first.keys() - float_names(first), torch.float64)):
        # Sums run in place over one set of tensors, not over a stack: a thousand clients need no more memory
        # than two. A _foreach function handles all tensors of one type in one launch, which matters on a GPU.
        sums = {n: torch.zeros_like(first[n], dtype=kind) for n in names}
        for client, count in zip(weights, counts, strict=True) if sums else ():
            torch._foreach_add_(list(sums.values()), [client[n] for n in sums], alpha=count / total)
        mean |= sums
    return {n: mean[n] if first[n].is_floating_point() else mean[n].round().to(first[n].dtype) for n in first}


def float_names(weights: Weights) -> list[str]:
    return [name for name, value in weights.items() if value.is_floating_point()]


def to_device(weights: Weights, device: torch.device) -> Weights:
    """Move weights to `device`; what is there already is not copied."""
    return {name: value.to(device) for name, value in weights.items()}


def zeros_like(weights: Weights, names: Sequence[str]) -> Weights:
    return {name: torch.zeros_like(weights[name]) for name in names}
