"""k-means of all clients' samples together, of which the server sees sums and counts, never a sample.

A sum of one sample would be that sample. So a client keeps to itself every cluster of which it has fewer than
SMALLEST samples, in each message: its means at the start, then its sums and counts in each iteration. That is
not enough between real sites: if one sample changes its cluster, the difference of two messages is it. There
the sums would have to be added up without anybody seeing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedactive.query.cores import each_on_a_core
from fedactive.query.kernels import cluster_means, kmeans, squared_distances

SMALLEST = 5  # samples of a client in a cluster that it reports
ITERATIONS = 10  # messages of each client, at most: clusters of their own are a good start
STILL = 0.01  # it ends when an iteration moves the centres by less than this share of their length


@dataclass(frozen=True)
class Sums:
    """A client's message: of each cluster the sum and the number of its samples, 0 where these are few."""

    sums: Tensor  # (k, d)
    counts: Tensor  # (k,)


def reported(points: Tensor, cluster: Tensor, clusters: int) -> Sums:
    """Make the message of a client with these points."""
    means, _ = cluster_means(points, cluster, clusters)
    counts = torch.bincount(cluster, minlength=clusters)
    counts = torch.where(counts < SMALLEST, 0, counts)
    return Sums(means * counts[:, None], counts)


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """Return the centre that is nearest to each point."""
    return squared_distances(points, centres).argmin(1)


def federated_kmeans(
    clients: Sequence[Tensor], clusters: int, rngs: Sequence[torch.Generator], server: torch.Generator
) -> Tensor:
    """Return the centres (k, d), at most `clusters`, of all clients' points (n_k, d)."""
    centres = merge(each_on_a_core(start, clients, [clusters] * len(clients), rngs), clusters, server)
    for _ in range(ITERATIONS):
        before = centres
        messages = each_on_a_core(report, clients, [before] * len(clients))
        centres = step(before, messages)
        if bool((centres - before).norm() <= STILL * before.norm()):
            break
    return centres


def report(points: Tensor, centres: Tensor) -> Sums:
    """Make a client's message in an iteration."""
    return reported(points, nearest(points, centres), len(centres))


def start(points: Tensor, clusters: int, rng: torch.Generator) -> Sums:
    """Make a client's first message: clusters of its own, large enough to be reported in most cases."""
    own = max(1, min(clusters, len(points) // (2 * SMALLEST)))
    return reported(points, kmeans(points, own, rng, restarts=1), own)


def merge(messages: Sequence[Sums], clusters: int, rng: torch.Generator) -> Tensor:
    """Cluster the clients' means on the server; without any there is one centre, at the origin."""
    sums, counts = (torch.cat(parts) for parts in zip(*((m.sums, m.counts) for m in messages), strict=True))
    sums, counts = sums[counts > 0], counts[counts > 0]
    if not len(counts):
        return sums.new_zeros(1, sums.shape[1])
    k = min(clusters, len(counts))
    cluster = kmeans(sums / counts[:, None], k, rng, restarts=1)
    total, size = add_up(sums, cluster, k), add_up(counts, cluster, k)
    return total[size > 0] / size[size > 0, None]


def step(centres: Tensor, messages: Sequence[Sums]) -> Tensor:
    """Move each centre to the mean of what was reported; it stays where nothing was."""
    sums = torch.stack([message.sums for message in messages]).sum(0)
    counts = torch.stack([message.counts for message in messages]).sum(0)
    return torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], centres)


def add_up(values: Tensor, cluster: Tensor, clusters: int) -> Tensor:
    return values.new_zeros(clusters, *values.shape[1:]).index_add_(0, cluster, values)
