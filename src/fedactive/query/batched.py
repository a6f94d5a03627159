"""The kernels for all clients of a round at once: one client alone leaves a GPU waiting for launches.

Pools of different sizes are padded to (clients, n, ...). Each client draws from its own generator what it
would draw alone, so that its choice does not depend on the other clients. Strategies call `k_centre_of_all`
and `gradient_seeding_of_all`, which take any number of clients; the kernels themselves take a group of them
that fits into memory. `kernels.py` says what is computed; k-means is in `batched_kmeans.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedactive.query import kernels
from fedactive.query.kernels import draw

MOST_NUMBERS = 2**28  # held by a group of clients at once: 1 GB
ANCHORS = 1024  # of k-centre at a time: points and anchors may both be many

Rngs = Sequence[torch.Generator]
R = TypeVar("R")


def k_centre_of_all(
    points: Sequence[Tensor], anchors: Sequence[Tensor], counts: Sequence[int], rngs: Rngs
) -> list[tuple[Tensor, Tensor]]:
    """Run `kernels.k_centre` for each client: positions and squared distances."""
    if one_by_one(points):
        return list(map(kernels.k_centre, points, anchors, counts, rngs))
    costs = [2 * (x.numel() + a.numel()) + 2 * ANCHORS * len(x) for x, a in zip(points, anchors, strict=True)]
    return in_groups(k_centre, costs, points, anchors, counts, rngs)


def gradient_seeding_of_all(
    z: Sequence[Tensor], q: Sequence[Tensor], counts: Sequence[int], rngs: Rngs
) -> list[tuple[Tensor, Tensor]]:
    """Run `kernels.gradient_seeding` for each client: positions and their D²."""
    if one_by_one(z):
        return list(map(kernels.gradient_seeding, z, q, counts, rngs))
    costs = [4 * (a.numel() + b.numel()) for a, b in zip(z, q, strict=True)]
    return in_groups(gradient_seeding, costs, z, q, counts, rngs)


def one_by_one(tensors: Sequence[Tensor]) -> bool:
    """Return True where clients are faster one after another, which is on a CPU.

    There ten at once took 3 to 5 times as long: nothing waits for launches, one client's numbers stay in the
    caches, and a kernel can see which work it may skip (centres that no longer move).
    """
    return all(tensor.device.type == "cpu" for tensor in tensors)


def in_groups(kernel: Callable[..., list[R]], costs: Sequence[int], *arguments: Sequence[Any]) -> list[R]:
    """Run the kernel for all clients, as many of them at a time as fit into memory.

    `costs` is how many numbers each client will hold; the first argument is tensors. A group is padded to its
    largest client, so clients of similar size go together.
    """
    most = 0 if one_by_one(arguments[0]) else MOST_NUMBERS
    order = sorted(range(len(costs)), key=costs.__getitem__, reverse=True)
    results: dict[int, R] = {}
    while order:
        fit = max(1, most // max(1, costs[order[0]]))
        group, order = order[:fit], order[fit:]
        chosen = kernel(*([argument[k] for k in group] for argument in arguments))
        results.update(zip(group, chosen, strict=True))
    return [results[k] for k in range(len(costs))]


def padded(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Stack (n_k, ...) of each client to (clients, n, ...), filled up with 0, and say which rows are real."""
    whole = pad_sequence(list(parts), batch_first=True)
    return whole, mask([len(part) for part in parts], whole.shape[1], whole.device)


def mask(sizes: Sequence[int], most: int, device: torch.device) -> Tensor:
    """Make a mask (clients, most), True for the first `size` places of each client."""
    return torch.arange(most, device=device) < torch.tensor(sizes, device=device)[:, None]


def rows(values: Tensor, positions: Tensor) -> Tensor:
    """Take values[k, positions[k]] of each client: (clients, n, ...), (clients, m) give (clients, m, ...)."""
    return values.take_along_dim(positions.view(*positions.shape, *[1] * (values.dim() - 2)), 1)


def shuffles(sizes: Sequence[int], rngs: Rngs, device: torch.device) -> tuple[Tensor, list[Tensor]]:
    """Draw a random order of each client's points, so that its seed breaks ties; padded, and one by one."""
    orders = [torch.randperm(n, generator=rng) for n, rng in zip(sizes, rngs, strict=True)]
    together = pad_sequence(orders, batch_first=True).to(device)
    return together, [order[:n] for order, n in zip(together, sizes, strict=True)]


# --- D² seeding


def gradient_seeding(
    z: Sequence[Tensor], q: Sequence[Tensor], counts: Sequence[int], rngs: Rngs
) -> list[tuple[Tensor, Tensor]]:
    """Batch `kernels.gradient_seeding`, with z (T, n_k, d) and q (T, n_k, C) of each client."""
    device, terms, most = z[0].device, len(z[0]), max(counts)
    shuffle, orders = shuffles([part.shape[1] for part in z], rngs, device)
    z_all, real = padded([part.transpose(0, 1)[order] for part, order in zip(z, orders, strict=True)])
    q_all, _ = padded([part.transpose(0, 1)[order] for part, order in zip(q, orders, strict=True)])
    uniform = pad_sequence(
        [torch.rand(count, generator=rng) for count, rng in zip(counts, rngs, strict=True)], batch_first=True
    ).to(device)
    # Σ_ab <z_a, z_b>·<q_a, q_b>; not by matrix products: that would be a tiny one for each point.
    z_pairs, q_pairs = ((v[:, :, :, None] * v[:, :, None]).sum(4) for v in (z_all, q_all))
    norms = (z_pairs * q_pairs).sum((2, 3))
    z_flat, q_flat = z_all.flatten(1, 2), q_all.flatten(1, 2)
    chosen = torch.empty(len(z), most, dtype=torch.long, device=device)
    scores = torch.empty(len(z), most, device=device)
    free = real.float()
    nearest = norms.clone()
    for step in range(most):
        if step == 0:
            centre = torch.where(real, norms, -1.0).argmax(1, keepdim=True)
        else:
            weights = nearest * free
            # If all points left coincide with centres, draw any of them.
            left = torch.where(weights.sum(1, keepdim=True) > 0, weights, free)
            centre = draw(left, uniform[:, step : step + 1])
        chosen[:, step : step + 1] = centre
        scores[:, step : step + 1] = nearest.gather(1, centre)
        z_centre, q_centre = rows(z_all, centre)[:, 0], rows(q_all, centre)[:, 0]  # (clients, T, ...)
        products = (z_flat @ z_centre.mT) * (q_flat @ q_centre.mT)  # (clients, n·T, T)
        products = products.view(len(z), -1, terms * terms).sum(2)
        distance = (norms + norms.gather(1, centre) - 2 * products).clamp_min_(0)
        nearest = distance if step == 0 else torch.minimum(nearest, distance)
        free.scatter_(1, centre, 0)
    chosen = shuffle.gather(1, chosen)
    return [(chosen[k, :count], scores[k, :count]) for k, count in enumerate(counts)]


# --- k-centre


def k_centre(
    points: Sequence[Tensor], anchors: Sequence[Tensor], counts: Sequence[int], rngs: Rngs
) -> list[tuple[Tensor, Tensor]]:
    """Batch `kernels.k_centre`, one step after another: looking ahead saves nothing on a GPU."""
    device, most = points[0].device, max(counts)
    shuffle, orders = shuffles([len(x) for x in points], rngs, device)
    x, real = padded([part[order] for part, order in zip(points, orders, strict=True)])
    norms = (x * x).sum(2)
    nearest = torch.full_like(norms, torch.inf)
    first, known = padded(anchors)
    for part, there in zip(first.split(ANCHORS, 1), known.split(ANCHORS, 1), strict=True):
        if part.shape[1]:
            square = torch.where(there, (part * part).sum(2), torch.inf)
            products = torch.baddbmm(square[:, None], x, part.mT, alpha=-2)
            nearest = torch.minimum(nearest, (products.amin(2) + norms).clamp_min_(0))
    chosen = torch.empty(len(points), most, dtype=torch.long, device=device)
    scores = torch.empty(len(points), most, device=device)
    taken = ~real
    for step in range(most):
        left = nearest.masked_fill(taken, -torch.inf)
        centre = left.argmax(1, keepdim=True)
        chosen[:, step : step + 1] = centre
        scores[:, step : step + 1] = left.gather(1, centre)
        square = norms.gather(1, centre)[:, None]
        distance = torch.baddbmm(square, x, rows(x, centre).mT, alpha=-2)[:, :, 0] + norms
        nearest = torch.minimum(nearest, distance.clamp_min_(0))
        taken.scatter_(1, centre, True)
    chosen, scores = shuffle.gather(1, chosen), scores.nan_to_num(posinf=0.0)
    return [(chosen[k, :count], scores[k, :count]) for k, count in enumerate(counts)]
