"""The numerical pieces that strategies share: ranking with fair ties, k-means, D² seeding, k-centre.

Written in torch for any device. Random numbers come from the caller's generator, on the CPU, so that the same
seed means the same draws everywhere. Positions stay tensors, so that no loop waits for a GPU. Distances are
small differences of large products: `Engine` makes sure that these are not rounded to TF32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

RESTARTS = 10  # of k-means
ITERATIONS = 300  # of a restart, at most
WIDE = 1024  # dimensions; with more, k-means begins on a sketch. The paper's models do not have more.
SKETCH = 64  # dimensions of a sketch
SHORT = 0.01  # a restart on a sketch ends when an iteration lowers the inertia by less than this share


def top(scores: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Return the positions of the `count` highest scores, best first; equal scores in random order."""
    shuffle = torch.randperm(len(scores), generator=rng).to(scores.device)
    return shuffle[scores[shuffle].argsort(descending=True, stable=True)[:count]]


def best_of_each(cluster: Tensor, score: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Take the best of every cluster; if these are fewer than `count`, the second best of each, and so on."""
    by_score = top(score, len(score), rng)
    by_cluster = by_score[cluster[by_score].argsort(stable=True)]
    size = torch.bincount(cluster)
    first = size.cumsum(0) - size
    place = torch.empty_like(cluster)  # of each sample within its own cluster
    place[by_cluster] = torch.arange(len(cluster), device=cluster.device) - first[cluster[by_cluster]]
    return by_score[place[by_score].argsort(stable=True)[:count]]


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """Compute ‖x - c‖² for all pairs, as (points, centres), never below 0."""
    products = torch.addmm((centres * centres).sum(1), points, centres.T, alpha=-2)
    return (products + (points * points).sum(1, keepdim=True)).clamp_min_(0)


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw positions with probability proportional to their weight, from numbers `uniform` in [0, 1).

    Along the last dimension: weights (..., n) and uniform (..., m) give positions (..., m).
    """
    cumulative = weights.double().cumsum(-1)
    position = torch.searchsorted(cumulative, cumulative[..., -1:] * uniform, right=True)
    return position.clamp_max_(weights.shape[-1] - 1)


def gradient_seeding(z: Tensor, q: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Seed by k-means++ on gradient embeddings g = Σ_t z_t ⊗ q_t, never built: positions and their D².

    z is (T, n, d) and q is (T, n, C). The first centre is the longest g, the others are drawn by D² (Ash et
    al., ICLR 2020). Since <z ⊗ q, z' ⊗ q'> = <z, z'>·<q, q'>, a distance costs T²·(d + C), not d·C.
    """
    n = z.shape[1]
    shuffle = torch.randperm(n, generator=rng).to(z.device)  # so that ties are broken by the seed
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
            # If all points left coincide with centres, draw any of them.
            centre = draw(torch.where(weights.sum() > 0, weights, free), uniform[step : step + 1])
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
    """Choose by greedy k-centre (Sener & Savarese, ICLR 2018): always the point farthest from all centres.

    The anchors are the first centres; without any, the first point is drawn at random. Returns positions and
    the squared distance of each to the centres before it (0 for a first point without any).
    """
    n = len(points)
    shuffle = torch.randperm(n, generator=rng).to(points.device)  # ties are broken by the seed
    points = points[shuffle]
    norms = (points * points).sum(1)
    nearest = torch.full_like(norms, torch.inf)
    chosen = torch.empty(count, dtype=torch.long, device=points.device)
    scores = torch.empty(count, device=points.device)
    # Distances only shrink, so the next few choices are nearly always among the points that are farthest now.
    # Choose among these alone, as long as the farthest of them is no nearer than all others were at first: it
    # is the same choice as among all. The others then get their distances to new centres in one product.
    done, steps, centres = 0, 16, anchors
    if len(anchors) == 0 and count:  # the point that was shuffled to the front
        chosen[0], scores[0] = 0, 0.0
        done, centres = 1, points[:1]
    while done < count:
        for part in centres.split(1024):  # in parts: points and centres may both be many
            products = torch.addmm((part * part).sum(1), points, part.T, alpha=-2)
            nearest = torch.minimum(nearest, (products.amin(1) + norms).clamp_min_(0))
        nearest[chosen[:done]] = -torch.inf  # not to be chosen again
        steps = min(steps, count - done)
        farthest, some = nearest.topk(min(n, 4 * steps))
        between = squared_distances(points[some], points[some]).fill_diagonal_(-torch.inf)
        left = farthest
        for step in range(done, done + steps):
            centre = left.argmax(0, keepdim=True)
            chosen[step : step + 1] = some[centre]
            scores[step : step + 1] = left[centre]
            left = torch.minimum(left, between[centre][0])
        others = farthest[-1] if len(some) < n else -torch.inf
        sure = 1 + int((scores[done + 1 : done + steps] >= others).cumprod(0).sum())  # the first always is
        centres = points[chosen[done : done + sure]]
        done, steps = done + sure, min(2 * sure, 256)
    return shuffle[chosen], scores.nan_to_num()


def trials(k: int) -> int:
    """Return the number of draws of which greedy k-means++ takes the best."""
    return 2 + int(math.log(k))


def kmeans_plus_plus(points: Tensor, k: int, rng: torch.Generator, restarts: int = 1) -> Tensor:
    """Draw starting centres (restarts, k, d), each the best of a few draws with probability ∝ D².

    Arthur & Vassilvitskii (2007), in their greedy form: of a few draws the one that lowers ΣD² most. The
    restarts are independent and computed side by side.
    """
    n, tried = len(points), trials(k)
    uniform = torch.rand(k, restarts, tried, generator=rng).to(points.device)
    norms = (points * points).sum(1)
    chosen = torch.empty(restarts, k, dtype=torch.long, device=points.device)
    nearest = points.new_ones(restarts, n)  # the first centre is drawn uniformly
    for step in range(k):
        drawn = draw(nearest, uniform[step])
        flat = drawn.flatten()
        distance = torch.addmm(norms, points[flat], points.T, alpha=-2).add_(norms[flat, None])
        distance = distance.clamp_min_(0).view(restarts, tried, n)
        if step:
            distance = torch.minimum(distance, nearest[:, None])
        best = distance.sum(2).argmin(1, keepdim=True)
        nearest = distance.take_along_dim(best[:, :, None], 1)[:, 0]
        chosen[:, step : step + 1] = drawn.gather(1, best)
    return points[chosen]


def kmeans(
    points: Tensor,
    k: int,
    rng: torch.Generator,
    restarts: int = RESTARTS,
    tolerance: float = 1e-4,
) -> Tensor:
    """Run Lloyd's k-means from k-means++ starts; return each point's cluster in the best of `restarts` runs.

    Clusters are numbered 0 to k-1; k is at most the number of points. One that runs empty is given the point
    farthest from its own centre. Empty ones remain only where there are fewer than k different points.
    """
    points = points - points.mean(0)  # small numbers: differences of their squares keep more digits
    if points.shape[1] <= WIDE:
        return best_run(points, kmeans_plus_plus(points, k, rng, restarts), tolerance)[1]
    # Where starts and most of the way are found on a sketch, a few iterations on the points end it: as good
    # an end as without the sketch, in a fifth of the time.
    small = sketch(points, rng)
    _, cluster = best_run(small, kmeans_plus_plus(small, k, rng, restarts), tolerance, SHORT)
    for part in (small, points):
        means, _ = cluster_means(part, cluster, k)
        _, cluster = lloyd(part, means, tolerance)
    return cluster


def sketch(points: Tensor, rng: torch.Generator) -> Tensor:
    """Turn points (n, d), of mean 0, to the SKETCH directions in which they vary most, and drop the others.

    By one step of randomised subspace iteration (Halko, Martinsson & Tropp, 2011).
    """
    start = torch.randn(points.shape[1], SKETCH, generator=rng).to(points)
    directions, _ = torch.linalg.qr(points.T @ (points @ start))
    turned: Tensor = points @ directions
    return turned


def best_run(points: Tensor, starts: Tensor, tolerance: float, gain: float = 0.0) -> tuple[float, Tensor]:
    """Run Lloyd's from each of the starts (restarts, k, d); return what ends with the lowest inertia."""
    return min((lloyd(points, start, tolerance, gain) for start in starts), key=lambda run: run[0])


def lloyd(points: Tensor, centres: Tensor, tolerance: float, gain: float = 0.0) -> tuple[float, Tensor]:
    """Run Lloyd's iterations until they lower the inertia by no more than that share, or centres stand still.

    Return the inertia and each point's cluster.
    """
    k, norms = len(centres), (points * points).sum(1)
    stop = tolerance * float(points.var(0, correction=0).mean())
    # The nearest centre has the largest x·c - ½‖c‖². Only centres that moved get new values: after a few
    # iterations most clusters stay as they are.
    closeness = points.new_empty(k, len(points))
    moving, shift, last = torch.arange(k, device=points.device), float("inf"), float("inf")
    for _ in range(ITERATIONS):
        c = centres[moving]
        closeness[moving] = torch.addmm((c * c).sum(1, keepdim=True), c, points.T, beta=-0.5)
        highest, cluster = closeness.max(0)
        distance = (norms - 2 * highest).clamp_min_(0)
        inertia = float(distance.sum(dtype=torch.float64))
        # With fewer than k different points empty clusters remain, and only inertia shows convergence.
        if inertia >= (1 - gain) * last or (shift <= stop and len(cluster.unique()) == k):
            break
        moved = update_centres(points, centres, cluster, distance)
        shifts = ((moved - centres) ** 2).sum(1)
        moving, shift, last = shifts.nonzero().squeeze(1), float(shifts.sum()), inertia
        centres = moved
    return inertia, cluster


def update_centres(points: Tensor, centres: Tensor, cluster: Tensor, distance: Tensor) -> Tensor:
    """Do the M-step: move each centre to the mean of its points, empty clusters to the farthest points."""
    means, empty = cluster_means(points, cluster, len(centres))
    farthest = distance.topk(len(centres)).indices
    # The first empty cluster gets the farthest point, the second the next: no need to count the empty ones.
    given = farthest[(empty.cumsum(0) - 1).clamp_min(0)]
    return torch.where(empty[:, None], points[given], means)


def cluster_means(
    points: Tensor, cluster: Tensor, clusters: int, row: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return each cluster's mean, and which are empty. `cluster[i]` is of point `row[i]`, by default i."""
    ordered, order = cluster.sort(stable=True)
    edges = torch.searchsorted(ordered, torch.arange(clusters + 1, device=points.device))
    # Bags are summed in the order of their points, also on a GPU: the same clusters give the same bits.
    means = embedding_bag(order if row is None else row[order], points, edges[:-1], mode="mean")
    return means, edges[:-1] == edges[1:]
