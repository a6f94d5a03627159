"""ProbCover (Yehuda et al., NeurIPS 2022): cover as many samples as possible with balls around the labelled.

Greedily, the next sample is the one whose ball of radius δ holds most samples that no ball holds yet. With
δ = 0 it is estimated, as in the paper: the largest radius at which 95% of all balls hold samples of one class
only, where k-means with one cluster per class stands for the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from fedactive.options import option
from fedactive.query.embedding_strategy import EmbeddingStrategy
from fedactive.query.kernels import kmeans, squared_distances
from fedactive.query.strategy import Selection, register

PURE = 0.95
RADII = torch.arange(1, 41) / 20  # up to 2, the diameter of the sphere


@final
@register
@dataclass(frozen=True)
class ProbCover(EmbeddingStrategy):
    name = "probcover"
    summary = "samples whose neighbourhoods cover most of what is not covered yet; for few labels"
    paper = "Yehuda et al., NeurIPS 2022"

    delta: float = option(
        0.0, "radius of a neighbourhood of embeddings of length 1; 0 estimates it", low=0, high=2
    )

    def choose_of(
        self, unlabelled: Tensor, labelled: Tensor, classes: int, count: int, rng: torch.Generator
    ) -> Selection:
        shuffle = torch.randperm(len(unlabelled), generator=rng).to(unlabelled.device)  # ties: by the seed
        x = unlabelled[shuffle]
        distances = squared_distances(x, x).sqrt_()
        delta = self.delta or estimate_radius(x, distances, classes, rng)
        covered = (squared_distances(x, labelled).sqrt_() < delta).any(1)
        chosen, gains = cover(distances < delta, covered, count)
        return Selection(shuffle[chosen], gains)


def cover(near: Tensor, covered: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Choose greedily; `near` (n, n) says who (row) is in whose ball (column).

    Return positions, and how many samples each adds.
    """
    gain = near[~covered].sum(0)
    chosen = torch.empty(count, dtype=torch.long, device=near.device)
    gains = torch.empty(count, device=near.device)
    for step in range(count):
        best = gain.argmax()
        chosen[step], gains[step] = best, gain[best]
        new = near[:, best] & ~covered
        covered = covered | new
        gain -= near[new].sum(0)
        gain[chosen[: step + 1]] = -1
    return chosen, gains


def estimate_radius(x: Tensor, distances: Tensor, classes: int, rng: torch.Generator) -> float:
    """Return the largest of RADII at which 95% of the balls are of one cluster only; else the smallest."""
    cluster = kmeans(x, min(classes, len(x)), rng, restarts=1)
    # A ball stays pure as long as it is smaller than the distance to the nearest sample of another cluster.
    nearest_other = distances.masked_fill(cluster[:, None] == cluster, torch.inf).amin(1)
    radii = RADII.to(x.device)
    pure = (nearest_other >= radii[:, None]).float().mean(1)
    return float(radii[max(int((pure >= PURE).sum()) - 1, 0)])
