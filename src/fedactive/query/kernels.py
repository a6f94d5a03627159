"""The numerical pieces that strategies share: ranking with fair ties, k-means."""

from __future__ import annotations

import torch
from torch import Tensor


def top(scores: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Positions of the `count` highest scores, best first; equal scores in random order."""
    shuffle = torch.randperm(len(scores), generator=rng).to(scores.device)
    return shuffle[scores[shuffle].argsort(descending=True, stable=True)[:count]]


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """‖x - c‖² for all pairs, as (points, centres), never below 0."""
    products = torch.addmm((centres * centres).sum(1), points, centres.T, alpha=-2)
    return (products + (points * points).sum(1, keepdim=True)).clamp_min_(0)


def kmeans_plus_plus(points: Tensor, k: int, rng: torch.Generator) -> Tensor:
    """k starting centres, each drawn with probability proportional to D² (Arthur & Vassilvitskii, 2007)."""
    chosen = [int(torch.randint(len(points), (1,), generator=rng))]
    nearest = squared_distances(points, points[chosen]).squeeze(1)
    for draw in torch.rand(k - 1, generator=rng).tolist():
        cumulative = nearest.double().cumsum(0)
        # Where all points coincide with a centre, any point will do.
        position = int(torch.searchsorted(cumulative, cumulative[-1] * draw, right=True))
        chosen.append(min(position, len(points) - 1))
        torch.minimum(nearest, squared_distances(points, points[chosen[-1:]]).squeeze(1), out=nearest)
    return points[chosen]


def kmeans(
    points: Tensor,
    k: int,
    rng: torch.Generator,
    restarts: int = 10,
    iterations: int = 300,
    tolerance: float = 1e-4,
) -> Tensor:
    """Lloyd's k-means from k-means++ starts; the cluster of each point in the best of `restarts` runs.

    Clusters are numbered 0 to k-1. One that runs empty is given the point farthest from its own centre; only
    with fewer than k different points do empty ones remain.
    """
    stop = tolerance * float(points.var(0, correction=0).mean())
    best, best_inertia = torch.zeros(len(points), dtype=torch.long, device=points.device), float("inf")
    for _ in range(restarts):
        centres = kmeans_plus_plus(points, k, rng)
        for _ in range(iterations):
            distance, cluster = squared_distances(points, centres).min(1)
            moved = update_centres(points, centres, cluster, distance)
            shift = float(((moved - centres) ** 2).sum())
            centres = moved
            if shift <= stop:
                break
        distance, cluster = squared_distances(points, centres).min(1)
        inertia = float(distance.sum())
        if inertia < best_inertia:
            best, best_inertia = cluster, inertia
    return best


def update_centres(points: Tensor, centres: Tensor, cluster: Tensor, distance: Tensor) -> Tensor:
    """The M-step: each centre to the mean of its points, empty clusters to the farthest points."""
    count = torch.bincount(cluster, minlength=len(centres))
    sums = torch.zeros_like(centres).index_add_(0, cluster, points)
    means = sums / count.clamp_min(1)[:, None]
    empty = (count == 0).nonzero().squeeze(1)
    if len(empty):
        means[empty] = points[distance.topk(min(len(empty), len(points))).indices][: len(empty)]
    return means
