"""The numerical pieces that strategies share: ranking with fair ties, k-means, D² seeding, k-centre.

Written in torch for any device. Random numbers come from the caller's generator, on the CPU, so that the same
seed means the same draws everywhere; positions stay tensors, so that a GPU is never waited for in a loop.
"""

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


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """A position, drawn with probability proportional to its weight by a number `uniform` in [0, 1)."""
    cumulative = weights.double().cumsum(0)
    position = torch.searchsorted(cumulative, cumulative[-1:] * uniform, right=True)
    return position.clamp_max_(len(weights) - 1)


def gradient_seeding(z: Tensor, q: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """k-means++ seeding of gradient embeddings g = Σ_t z_t ⊗ q_t, never built: positions and their D².

    z is (T, n, d) and q is (T, n, C). The first centre is the longest g, the others are drawn by D² (Ash et
    al., ICLR 2020). Since <z ⊗ q, z' ⊗ q'> = <z, z'>·<q, q'>, a distance costs T²·(d + C), not d·C.
    """
    n = z.shape[1]
    shuffle = torch.randperm(n, generator=rng).to(z.device)  # equal points are met in random order
    z, q = z[:, shuffle], q[:, shuffle]
    pairs = [(a, b) for a in range(len(z)) for b in range(len(z))]
    norms = torch.stack([(z[a] * z[b]).sum(1) * (q[a] * q[b]).sum(1) for a, b in pairs]).sum(0)
    uniform = torch.rand(count, generator=rng).to(z.device)
    chosen = torch.empty(count, dtype=torch.long, device=z.device)
    scores = torch.empty(count, device=z.device)
    free = torch.ones(n, device=z.device)
    nearest = norms.clone()
    for step in range(count):
        if step == 0:
            centre = norms.argmax(0, keepdim=True)
        else:
            weights = nearest * free
            # All that is left may coincide with a centre: then any of it will do.
            centre = draw(torch.where(weights.sum() > 0, weights, free), uniform[step])
        chosen[step : step + 1] = centre
        scores[step : step + 1] = nearest[centre]
        products = torch.zeros_like(norms)
        for a, b in pairs:
            products += torch.mv(z[a], z[b][centre][0]) * torch.mv(q[a], q[b][centre][0])
        distance = (norms + norms[centre] - 2 * products).clamp_min_(0)
        nearest = distance if step == 0 else torch.minimum(nearest, distance)
        free[centre] = 0
    return shuffle[chosen], scores


def k_centre(points: Tensor, anchors: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Greedy k-centre (Sener & Savarese, ICLR 2018): again and again the point farthest from all centres.

    The anchors are the first centres; without any, the first point is drawn at random. Returns positions and
    the squared distance of each to the centres before it (0 for a first point without any).
    """
    n = len(points)
    shuffle = torch.randperm(n, generator=rng).to(points.device)  # ties are broken by the seed
    points = points[shuffle]
    norms = (points * points).sum(1)
    nearest = torch.full_like(norms, torch.inf)
    for part in anchors.split(1024) if len(anchors) else ():  # not all at once: both sets may be large
        nearest = torch.minimum(nearest, squared_distances(points, part).amin(1))
    chosen = torch.empty(count, dtype=torch.long, device=points.device)
    scores = torch.empty(count, device=points.device)
    for step in range(count):
        centre = nearest.argmax(0, keepdim=True)
        chosen[step : step + 1] = centre
        scores[step : step + 1] = nearest[centre]
        distance = norms + norms[centre] - 2 * torch.mv(points, points[centre][0])
        nearest = torch.minimum(nearest, distance.clamp_min_(0))
        nearest[centre] = -torch.inf  # never again
    return shuffle[chosen], scores.nan_to_num(posinf=0.0)


def kmeans_plus_plus(points: Tensor, k: int, rng: torch.Generator) -> Tensor:
    """k starting centres, each drawn with probability proportional to D² (Arthur & Vassilvitskii, 2007)."""
    uniform = torch.rand(k, generator=rng).to(points.device)
    norms = (points * points).sum(1)
    centres = points.new_empty(k, points.shape[1])
    nearest = torch.ones_like(norms)  # the first one is drawn uniformly
    for step in range(k):
        position = draw(nearest, uniform[step])
        centres[step] = points[position][0]
        distance = norms + norms[position] - 2 * torch.mv(points, centres[step])
        nearest = (distance if step == 0 else torch.minimum(nearest, distance)).clamp_min_(0)
    return centres


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
