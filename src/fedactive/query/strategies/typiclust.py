"""TypiClust (Hacohen, Dekel & Weinshall, ICML 2022): typical samples of clusters without labels.

With B labels to give and |L| given, k-means makes min(|L| + B, 500) clusters of all samples, labelled or not.
Clusters are served in turn: those with fewest labels first, larger before smaller; those of five samples or
fewer come last. Each gives its unlabelled sample of highest

    typicality(x) = 1 / (mean distance from x to its m nearest in the cluster)    m = min(20, half of it)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.query.embedding_strategy import EmbeddingStrategy
from fedactive.query.kernels import kmeans, squared_distances, top
from fedactive.query.strategy import Selection, register

MOST_CLUSTERS = 500
SMALL_CLUSTER = 5
NEIGHBOURS = 20


@final
@register
@dataclass(frozen=True)
class TypiClust(EmbeddingStrategy):
    name = "typiclust"
    summary = "the most typical samples of clusters without labels; for few labels"
    paper = "Hacohen et al., ICML 2022"

    def choose_of(
        self, unlabelled: Tensor, labelled: Tensor, classes: int, count: int, rng: torch.Generator
    ) -> Selection:
        x, n = torch.cat([unlabelled, labelled]), len(unlabelled)
        clusters = min(len(labelled) + count, MOST_CLUSTERS, len(x))
        cluster = kmeans(x, clusters, rng, restarts=1)
        score = typicality(x, cluster, clusters)[:n]
        chosen = in_turn(cluster, score, clusters, rng)[:count]
        return Selection(chosen, score[chosen])


def typicality(x: Tensor, cluster: Tensor, clusters: int) -> Tensor:
    score = x.new_empty(len(x))
    for c in range(clusters):
        members = (cluster == c).nonzero().squeeze(1)
        m = min(NEIGHBOURS, len(members) // 2)
        distances = squared_distances(x[members], x[members]).sqrt().fill_diagonal_(torch.inf)
        nearest = distances.topk(m, largest=False).values.sum(1) / max(m, 1)
        score[members] = 1 / (nearest + 1e-5)
    return score


def in_turn(cluster: Tensor, score: Tensor, clusters: int, rng: torch.Generator) -> Tensor:
    """Order the unlabelled samples, which come first in `cluster`, as their clusters are served."""
    n = len(score)
    size, labels = (torch.bincount(part, minlength=clusters) for part in (cluster, cluster[n:]))
    order = top(score, n, rng)
    order = order[cluster[order].argsort(stable=True)]
    unlabelled = size - labels
    first = unlabelled.cumsum(0) - unlabelled
    c = cluster[order]
    turn = torch.arange(n, device=c.device) - first[c]  # how often its cluster was served before
    by = torch.arange(n, device=c.device)
    # The last sort counts most: each keeps the order of what it finds equal.
    for key in (-size[c], labels[c], turn, (size[c] <= SMALL_CLUSTER).int()):
        by = by[key[by].argsort(stable=True)]
    return order[by]
