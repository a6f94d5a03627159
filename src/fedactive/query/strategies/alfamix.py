"""ALFA-Mix (Parvaneh et al., CVPR 2022): samples whose class changes when a little of an anchor is mixed in.

The anchors z* are the class means of the labelled embeddings. With ŷ the class that the head W, b predicts at
z, the mix of a given length that raises the loss most, to first order, is

    z̃ = z + α ⊙ (z* - z)    α = ε·‖z* - z‖₂·g / (‖g‖₂·(z* - z))    ε = cap/√d
    g = ∇_z CE(W z + b, ŷ) = Wᵀ(p - 1_ŷ)

with element-wise division. The product with z* - z cancels it, except where z* and z are equal, as features
that are 0 often are: there no mix moves anything. So

    z̃ = z + ε·‖z* - z‖₂·g/‖g‖₂ ⊙ [z* ≠ z]

which never divides by 0 (where g is 0, z̃ = z). Its logits are those of z plus a multiple of one product with
W: no mixed feature is ever built.

The cap grows until there are B candidates. k-means clusters these, and one from each cluster is chosen.

LoGo's released code differs from this with the local-only model: it mixes that model's features and
classifies the mixes with the *global* model's head, and ŷ stays the local-only model's own prediction. The
two often disagree before anything is mixed, so most of the pool becomes a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from fedactive.options import option
from fedactive.query.batched_kmeans import kmeans_of_all
from fedactive.query.kernels import best_of_each, top
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection, register

CAPS = (0.2, 0.4, 0.6, 0.8, 1.0)


@final
@register
@dataclass(frozen=True)
class AlfaMix(BatchedStrategy, OneModelStrategy):
    """ALFA-Mix. The head "released" is what LoGo's released code does with the local-only model. The head
    "global" compares with the global head's prediction instead: neither the paper's text nor its code."""

    name = "alfamix"
    summary = "samples that change class when mixed with class means, clustered"
    paper = "Parvaneh et al., CVPR 2022"

    head: str = option(
        "own",
        "whose last layer classifies mixes: the selector's own, or the global model's, where a class changes "
        "from the selector's prediction (released, as in LoGo's code) or from the global head's (global)",
        choices=("own", "global", "released"),
    )

    def __post_init__(self) -> None:
        if self.selector == "global":  # its own head is the global model's: a grid has this run once
            object.__setattr__(self, "head", "own")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.selector, self.head_model})

    @property
    def head_model(self) -> str:
        return self.selector if self.head == "own" else "global"

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        eases = [self.ease(pool, count) for pool, count in zip(pools, counts, strict=True)]
        candidates = [ease.nonzero().squeeze(1) for ease in eases]
        chosen: dict[int, Tensor] = {}
        for k, (ease, count, rng) in enumerate(zip(eases, counts, rngs, strict=True)):
            if len(candidates[k]) <= count:  # all of them, then random others: those are equal at 0
                chosen[k] = top(ease, count, rng)
        many = [k for k in range(len(pools)) if k not in chosen]
        points = [F.normalize(pools[k].unlabelled(self.selector).embeddings[candidates[k]]) for k in many]
        clusters = kmeans_of_all(points, [counts[k] for k in many], [rngs[k] for k in many])
        for k, x, cluster in zip(many, points, clusters, strict=True):
            # With duplicates some clusters are empty: then the next nearest of the other clusters are taken.
            nearness = -squared_distance_to_mean(x, cluster, counts[k])
            chosen[k] = candidates[k][best_of_each(cluster, nearness, counts[k], rngs[k])]
        return [
            Selection(chosen[k], ease[chosen[k]], {"candidates": len(candidates[k])})
            for k, ease in enumerate(eases)
        ]

    def ease(self, pool: Pool, wanted: int) -> Tensor:
        z = pool.unlabelled(self.selector).embeddings
        weight, bias = (part.to(z) for part in pool.head(self.head_model))
        anchors = class_means(pool.labelled(self.selector).embeddings, pool.labels, pool.classes)
        logits = torch.addmm(bias, z, weight.T)
        decided_by = pool.unlabelled(self.selector).logits if self.head == "released" else logits
        return ease_of_change(z, anchors, weight, logits, decided_by.argmax(1), wanted)


def class_means(embeddings: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return the anchors (C, d): a class without labels has the mean of all; no labels at all, no anchors."""
    if len(labels) == 0:
        return embeddings
    count = torch.bincount(labels, minlength=classes)[:, None]
    sums = embeddings.new_zeros(classes, embeddings.shape[1]).index_add_(0, labels, embeddings)
    return torch.where(count > 0, sums / count, embeddings.mean(0))


def steepest_direction(logits: Tensor, predicted: Tensor, weight: Tensor) -> Tensor:
    """Compute g/‖g‖ for each sample and its ŷ, 0 where g is 0.

    With p' the softmax over the classes other than ŷ, g = (1 - p_ŷ)·Wᵀ(p' - 1_ŷ). The first factor does not
    change the direction; leaving it out keeps the direction where p_ŷ rounds to 1.
    """
    own = predicted[:, None]
    others = logits.scatter(1, own, -torch.inf).softmax(1).nan_to_num()  # nan: there is only one class
    return F.normalize(others.scatter(1, own, -1.0) @ weight)


def ease_of_change(
    z: Tensor, anchors: Tensor, weight: Tensor, logits: Tensor, predicted: Tensor, wanted: int
) -> Tensor:
    """Return 1/cap for the smallest cap with which some anchor makes a class other than ŷ, 0 if none does.

    `logits` are those of the head W, b at z; ŷ = `predicted` is the class that must change. The cap grows
    until `wanted` samples have changed, so 0 may also mean that no larger cap was needed.
    """
    direction = steepest_direction(logits, predicted, weight)
    smallest = z.new_full((len(z),), torch.inf)
    for anchor in anchors:
        apart = anchor - z
        step = (direction * (apart != 0)) @ weight.T * apart.norm(dim=1, keepdim=True) / z.shape[1] ** 0.5
        for cap in CAPS:
            changed = (logits + cap * step).argmax(1) != predicted
            smallest = torch.where(changed, smallest.clamp_max(cap), smallest)
    enough = smallest.kthvalue(min(wanted, len(z))).values
    return torch.where(smallest <= enough, 1 / smallest, 0.0)  # 1/∞ = 0: no change


def squared_distance_to_mean(points: Tensor, cluster: Tensor, clusters: int) -> Tensor:
    """Compute ‖x - mean of x's cluster‖²."""
    count = torch.bincount(cluster, minlength=clusters)[:, None]
    sums = points.new_zeros(clusters, points.shape[1]).index_add_(0, cluster, points)
    return ((points - (sums / count)[cluster]) ** 2).sum(1)
