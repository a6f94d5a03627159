"""The weighted mean of updates that all our algorithms begin with."""

from __future__ import annotations

from collections.abc import Sequence

from fedactive.federated.algorithm import Update
from fedactive.federated.weights import Weights, weighted_mean


def average(updates: Sequence[Update]) -> Weights:
    """Average the weights: Θ = Σ_k |D_k|/|D| Θ_k."""
    return weighted_mean([u.weights for u in updates], [u.samples for u in updates])


def shares(updates: Sequence[Update]) -> list[float]:
    """Compute p_k = |D_k|/|D|."""
    total = sum(update.samples for update in updates)
    return [update.samples / total for update in updates]
