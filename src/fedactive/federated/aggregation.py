"""How the updates of an FL round become one model.

mean            Θ = Σ_k |D_k|/|D| Θ_k, as the papers have it: a single bad update can move it anywhere
median          of each weight over the clients, who all count the same (Yin et al., ICML 2018)
trimmed-mean    of each weight without its largest and smallest fifth, one at least (Yin et al., ICML 2018)
clipped-mean    the mean, with steps longer than the round's median step shortened to it (Sun et al., 2019)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedactive.federated.algorithm import Algorithm, Server, Update
from fedactive.federated.weights import Weights, weighted_mean
from fedactive.options import option

MEAN, MEDIAN, TRIMMED_MEAN, CLIPPED_MEAN = AGGREGATIONS = ("mean", "median", "trimmed-mean", "clipped-mean")


@dataclass(frozen=True)
class Averaging(Algorithm):
    """An algorithm whose server begins with one model that all updates agree on."""

    aggregation: str = option(MEAN, "how updates become one model", choices=AGGREGATIONS)

    def aggregate(self, server: Server, updates: Sequence[Update]) -> Weights:
        if self.aggregation == CLIPPED_MEAN:
            return average(clip_long_steps(server, updates))
        few = (len(updates) - 1) // 2  # more cannot be left out at either end
        if self.aggregation == MEDIAN:
            return trimmed_mean([u.weights for u in updates], few)
        if self.aggregation == TRIMMED_MEAN:
            return trimmed_mean([u.weights for u in updates], min(max(1, len(updates) // 5), few))
        return average(updates)


def average(updates: Sequence[Update]) -> Weights:
    """Average the weights: Θ = Σ_k |D_k|/|D| Θ_k."""
    return weighted_mean([u.weights for u in updates], [u.samples for u in updates])


def shares(updates: Sequence[Update]) -> list[float]:
    """Compute p_k = |D_k|/|D|."""
    total = sum(update.samples for update in updates)
    return [update.samples / total for update in updates]


def trimmed_mean(weights: Sequence[Weights], cut: int) -> Weights:
    """Average each number over the clients without its `cut` smallest and largest values."""
    mean: Weights = {}
    for name, first in weights[0].items():
        ordered = torch.stack([w[name] for w in weights]).sort(dim=0).values[cut : len(weights) - cut]
        whole = not first.is_floating_point()
        mean[name] = ordered.double().mean(0).round().to(first.dtype) if whole else ordered.mean(0)
    return mean


def clip_long_steps(server: Server, updates: Sequence[Update]) -> list[Update]:
    """Shorten steps to the median length of all: of the parameters, and of the statistics by themselves."""
    clipped = [Update(u.samples, dict(u.weights), u.state) for u in updates]
    floats = [name for name, w in server.weights.items() if w.is_floating_point()]
    groups = [server.parameters, [name for name in floats if name not in server.parameters]]
    for names in groups:
        steps = [{n: u.weights[n] - server.weights[n] for n in names} for u in updates]
        lengths = [math.sqrt(sum(s.double().square().sum().item() for s in step.values())) for step in steps]
        longest = sorted(lengths)[(len(lengths) - 1) // 2]
        for update, step, length in zip(clipped, steps, lengths, strict=True):
            shrink = min(1.0, longest / length) if length else 1.0
            update.weights.update({n: server.weights[n] + s * shrink for n, s in step.items()})
    return clipped
