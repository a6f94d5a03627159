"""k-means medoids: as many clusters as labels to give, and of each the sample nearest to its mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.query.embedding_strategy import EmbeddingStrategy
from fedactive.query.kernels import best_of_each, cluster_means, kmeans
from fedactive.query.strategy import Selection, register


@final
@register
@dataclass(frozen=True)
class Medoids(EmbeddingStrategy):
    name = "medoids"
    summary = "the sample nearest to each mean of k-means; for few labels"
    paper = "Pourahmadi et al., 2021"

    def choose_of(
        self, unlabelled: Tensor, labelled: Tensor, classes: int, count: int, rng: torch.Generator
    ) -> Selection:
        cluster = kmeans(unlabelled, count, rng, restarts=1)
        means, _ = cluster_means(unlabelled, cluster, count)
        nearness = -((unlabelled - means[cluster]) ** 2).sum(1)
        chosen = best_of_each(cluster, nearness, count, rng)
        return Selection(chosen, nearness[chosen])
