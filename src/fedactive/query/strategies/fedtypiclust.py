"""FedTypiClust (2026): TypiClust on clusters of all clients, so that no two label the same thing.

Clients find clusters together by federated k-means, min(|L| + B, 500) for all their labels L and budgets B.
The server serves clusters in turn, as in TypiClust: those with fewest labels first, larger before smaller,
those of five samples or fewer last. Each client has said how far its nearest unlabelled samples are from the
centre, and the nearest of all is labelled, while its client has budget left.

Where clients differ much, the paper itself finds TypiClust better. Beside sums and counts of clusters, which
a client reports only if it has five samples there, the server sees distances, and how many labels are where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.cores import each_on_a_core
from fedactive.query.federated_kmeans import federated_kmeans, nearest, report
from fedactive.query.kernels import squared_distances
from fedactive.query.pool import Pool
from fedactive.query.strategies.typiclust import MOST_CLUSTERS, SMALL_CLUSTER
from fedactive.query.strategy import BatchedStrategy, Selection, register


@dataclass(frozen=True)
class Offer:
    """What a client tells the server: how many samples and labels it has in each cluster, and distances."""

    size: Tensor  # (k,), 0 where it has fewer than it reports
    labels: Tensor  # (k,)
    distances: list[list[float]]  # of each cluster's unlabelled samples, the nearest first


@final
@register
@dataclass(frozen=True)
class FedTypiClust(BatchedStrategy):
    name = "fedtypiclust"
    summary = "typical samples of clusters that all clients have found together; for few labels"
    paper = "arXiv 2608.18634"
    selectors = ("global",)  # clients compare embeddings, so these come from one model
    needs_model = False
    coordinated = True

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global"})

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        unlabelled = [F.normalize(pool.unlabelled("global").embeddings) for pool in pools]
        labelled = [F.normalize(pool.labelled("global").embeddings) for pool in pools]
        points = [torch.cat(parts) for parts in zip(unlabelled, labelled, strict=True)]
        clusters = min(sum(counts) + sum(map(len, labelled)), MOST_CLUSTERS)
        server = rngs[0]
        centres = federated_kmeans(points, clusters, rngs, server)
        made = each_on_a_core(make_offer, unlabelled, labelled, [centres] * len(pools), rngs)
        orders, offers = zip(*made, strict=True)
        selections = []
        for order, offer, places in zip(orders, offers, deal(offers, counts), strict=True):
            chosen = torch.stack([order[cluster][place] for cluster, place in places])
            far = torch.tensor([offer.distances[cluster][place] for cluster, place in places])
            selections.append(Selection(chosen, -far))
        return selections


def make_offer(
    unlabelled: Tensor, labelled: Tensor, centres: Tensor, rng: torch.Generator
) -> tuple[list[Tensor], Offer]:
    """Sort a client's samples into the clusters: their positions, which stay with it, and its offer."""
    shuffle = torch.randperm(len(unlabelled), generator=rng).to(unlabelled.device)  # ties: by the seed
    distance, cluster = squared_distances(unlabelled[shuffle], centres).sqrt_().min(1)
    by = distance.argsort(stable=True)
    members = [by[cluster[by] == c] for c in range(len(centres))]
    everyone, known = torch.cat([unlabelled, labelled]), nearest(labelled, centres)
    offer = Offer(
        report(everyone, centres).counts,
        torch.bincount(known, minlength=len(centres)),
        [distance[own].tolist() for own in members],
    )
    return [shuffle[own] for own in members], offer


def deal(offers: Sequence[Offer], budgets: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Choose on the server: for each client the cluster of each query, and its place in what it offered."""
    size = torch.stack([offer.size for offer in offers]).sum(0)
    labels = torch.stack([offer.labels for offer in offers]).sum(0)
    keys = zip((size <= SMALL_CLUSTER).tolist(), labels.tolist(), (-size).tolist(), strict=True)
    order = [cluster for _, cluster in sorted((key, cluster) for cluster, key in enumerate(keys))]
    chosen: list[list[tuple[int, int]]] = [[] for _ in offers]
    taken = [[0] * len(order) for _ in offers]  # of each client and cluster

    def next_distance(client: int, cluster: int) -> float:
        left = offers[client].distances[cluster][taken[client][cluster] :]
        return left[0] if left and len(chosen[client]) < budgets[client] else float("inf")

    while any(len(own) < budget for own, budget in zip(chosen, budgets, strict=True)):
        for cluster in order:
            distance, client = min((next_distance(k, cluster), k) for k in range(len(offers)))
            if distance < float("inf"):
                chosen[client].append((cluster, taken[client][cluster]))
                taken[client][cluster] += 1
    return chosen
