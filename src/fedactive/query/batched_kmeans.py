"""k-means for all clients of a round at once: every restart of every client runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedactive.query import kernels
from fedactive.query.batched import MOST_NUMBERS, Rngs, in_groups, mask, one_by_one, padded, rows
from fedactive.query.cores import each_on_a_core
from fedactive.query.kernels import (
    FINE,
    ITERATIONS,
    RESTARTS,
    SHORT,
    WIDE,
    cluster_means,
    draw,
    sketch,
    trials,
)

CHECK_EVERY = 4  # iterations between two checks for convergence, which wait for the GPU


def kmeans_of_all(points: Sequence[Tensor], counts: Sequence[int], rngs: Rngs) -> list[Tensor]:
    """Run `kernels.kmeans` for each client: the cluster of each of its points."""
    if one_by_one(points):
        if any(x.shape[1] > WIDE for x in points):
            return each_on_a_core(kernels.kmeans, points, counts, rngs)
        return list(map(kernels.kmeans, points, counts, rngs))
    costs = [
        RESTARTS * (4 * k * x.shape[1] + 3 * trials(k) * len(x)) + x.numel()
        for x, k in zip(points, counts, strict=True)
    ]
    return in_groups(kmeans, costs, points, counts, rngs)


def kmeans_plus_plus(x: Tensor, real: Tensor, counts: Sequence[int], rngs: Rngs, restarts: int) -> Tensor:
    """Batch `kernels.kmeans_plus_plus`: (clients, restarts, max k, d), 0 where a client has fewer centres."""
    clients, n, _ = x.shape
    most, tried = max(counts), [trials(k) for k in counts]
    uniform = torch.zeros(clients, most, restarts, max(tried))
    for client, (k, rng) in enumerate(zip(counts, rngs, strict=True)):
        uniform[client, :k, :, : tried[client]] = torch.rand(k, restarts, tried[client], generator=rng)
    uniform = uniform.to(x.device)
    untried = ~mask(tried, max(tried), x.device)[:, None]
    last = real.sum(1)[:, None, None] - 1
    norms = (x * x).sum(2)
    chosen = torch.empty(clients, restarts, most, dtype=torch.long, device=x.device)
    weights = real[:, None].expand(-1, restarts, -1).to(x)  # the first centre is drawn uniformly
    nearest = torch.where(real, torch.inf, 0.0)[:, None]  # D² of padding stays 0
    for step in range(most):
        drawn = torch.minimum(draw(weights, uniform[:, step]), last)
        flat = drawn.flatten(1)
        distance = torch.baddbmm(norms[:, None], rows(x, flat), x.mT, alpha=-2)
        distance = distance.add_(norms.gather(1, flat)[:, :, None]).clamp_min_(0)
        distance = torch.minimum(distance.view(clients, restarts, -1, n), nearest[:, :, None])
        best = distance.sum(3).masked_fill_(untried, torch.inf).argmin(2, keepdim=True)
        weights = nearest = distance.take_along_dim(best[:, :, :, None], 2)[:, :, 0]
        chosen[:, :, step : step + 1] = drawn.gather(2, best)
    centres = rows(x, chosen.flatten(1)).view(clients, restarts, most, -1)
    return centres * mask(counts, most, x.device)[:, None, :, None]


def kmeans(
    points: Sequence[Tensor],
    counts: Sequence[int],
    rngs: Rngs,
    restarts: int = RESTARTS,
    tolerance: float = 1e-4,
) -> list[Tensor]:
    """Batch `kernels.kmeans`; runs that have converged stand still until all have."""
    x, real = padded(points)
    size, used = real.sum(1)[:, None, None], mask(counts, max(counts), x.device)
    x = (x - x.sum(1, keepdim=True) / size) * real[:, :, None]
    if x.shape[2] <= WIDE:
        best = lloyd(x, real, used, kmeans_plus_plus(x, real, counts, rngs, restarts), tolerance)
    else:
        sketches = [sketch(own[: len(p)], rng) for own, p, rng in zip(x, points, rngs, strict=True)]
        small, _ = padded(sketches)
        starts = kmeans_plus_plus(small, real, counts, rngs, restarts)
        best = lloyd(small, real, used, starts, tolerance, SHORT)
        for part, gain in ((small, 0.0), (x, FINE)):
            means, _ = update_centres(part, real, best[:, None], torch.zeros_like(best[:, None]), used)
            best = lloyd(part, real, used, means, tolerance, gain)
    return [best[k, : len(part)] for k, part in enumerate(points)]


def lloyd(
    x: Tensor, real: Tensor, used: Tensor, centres: Tensor, tolerance: float, gain: float = 0.0
) -> Tensor:
    """Batch `kernels.lloyd` from centres (clients, restarts, k, d); the clusters of each one's best run."""
    norms = (x * x).sum(2)
    stop = tolerance * norms.sum(1, keepdim=True) / (real.sum(1, keepdim=True) * x.shape[2])
    last = torch.full(centres.shape[:2], torch.inf, dtype=torch.float64, device=x.device)
    shift, done = last, torch.zeros_like(last, dtype=torch.bool)
    for iteration in range(ITERATIONS):
        cluster, distance = nearest_centres(x, norms, real, centres, used)
        inertia = distance.sum(2, dtype=torch.float64)
        moved, empty = update_centres(x, real, cluster, distance, used)
        done |= (inertia >= (1 - gain) * last) | ((shift <= stop) & ~empty.any(2))
        if iteration % CHECK_EVERY == CHECK_EVERY - 1 and bool(done.all()):
            break
        moved = torch.where(done[:, :, None, None], centres, moved)
        shift, last, centres = ((moved - centres) ** 2).sum((2, 3)), inertia, moved
    return cluster.take_along_dim(inertia.argmin(1)[:, None, None], 1)[:, 0]


def nearest_centres(
    x: Tensor, norms: Tensor, real: Tensor, centres: Tensor, used: Tensor
) -> tuple[Tensor, Tensor]:
    """Do the E-step: each point's cluster, past the last one for padding, and D²; (clients, restarts, n)."""
    clients, restarts, most, _ = centres.shape
    square = torch.where(used[:, None], (centres * centres).sum(3), torch.inf).flatten(1)[:, :, None]
    flat, found = centres.flatten(1, 2), []
    block = max(1, MOST_NUMBERS // square.numel())
    for part in x.split(block, 1):
        # The nearest centre has the largest x·c - ½‖c‖².
        closeness = torch.baddbmm(square, flat, part.mT, beta=-0.5)
        found.append(closeness.view(clients, restarts, most, -1).max(2))
    highest, cluster = (torch.cat(pieces, 2) for pieces in zip(*found, strict=True))
    distance = (norms[:, None] - 2 * highest).clamp_min_(0) * real[:, None]
    return torch.where(real[:, None], cluster, most), distance


def update_centres(
    x: Tensor, real: Tensor, cluster: Tensor, distance: Tensor, used: Tensor
) -> tuple[Tensor, Tensor]:
    """Do the M-step as `kernels.update_centres`: the new centres, and which clusters were empty."""
    clients, restarts, n = cluster.shape
    most, points = used.shape[1], x.flatten(0, 1)
    run = torch.arange(clients * restarts, device=x.device).view(clients, restarts, 1)
    start = n * torch.arange(clients, device=x.device)[:, None, None]  # of each client in `points`
    # Clusters are numbered over all runs, each with one more for its padding: one call gives all means.
    numbered = (cluster + (most + 1) * run).flatten()
    row = (start + torch.arange(n, device=x.device)).expand_as(cluster).flatten()
    means, empty = cluster_means(points, numbered, (most + 1) * run.numel(), row)
    means = means.view(clients, restarts, most + 1, -1)[:, :, :-1]
    empty = empty.view(clients, restarts, most + 1)[:, :, :-1] & used[:, None]
    farthest = torch.where(real[:, None], distance, -1.0).topk(most).indices
    given = farthest.gather(2, (empty.cumsum(2) - 1).clamp_min(0))
    return torch.where(empty[..., None], points[start + given], means), empty
