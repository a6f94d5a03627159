"""How diverse labelled and queried sets are: balance of their classes, and nearness to the pool's clusters.

The earth mover's distance between classes that are all equally far apart is the total variation distance
½·Σ|p_c - 1/C|, from 0 (balanced) to 1 - 1/C (one class only)
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix B).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def class_emd(labels: NDArray[np.int64], classes: int) -> float:
    """EMD to uniform of one set, given the labels of its samples."""
    if len(labels) == 0:
        raise ValueError("a set without samples has no class distribution")
    p = np.bincount(labels, minlength=classes) / len(labels)
    return float(np.abs(p - 1 / classes).sum() / 2)


def local_emd(clients: Sequence[NDArray[np.int64]], classes: int) -> float:
    """Mean over clients of the EMD of each client's own labels."""
    return float(np.mean([class_emd(labels, classes) for labels in clients]))


def global_emd(clients: Sequence[NDArray[np.int64]], classes: int) -> float:
    """EMD of all clients' labels together."""
    return class_emd(np.concatenate(clients), classes)


def transport_cost(
    points: NDArray[np.floating], cluster: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[float, float]:
    """M of the paper's Remark 2 (Eq. 8), and what it would be if every query served its own cluster.

    M is the least total squared distance of a one-to-one mapping between the centroids of the (non-empty)
    clusters and the queries; the second number is Σ_x ‖x - its own centroid‖². It never exceeds M as long as
    every point belongs to its nearest centroid, and the two are equal if no two queries share a cluster.
    """
    names, cluster = np.unique(cluster, return_inverse=True)
    if len(chosen) != len(names):
        raise ValueError(f"{len(chosen)} queries for {len(names)} clusters: not one to one")
    x = points.astype(np.float64)
    centroids = np.stack([x[cluster == c].mean(axis=0) for c in range(len(names))])
    cost = ((centroids[:, None] - x[chosen][None]) ** 2).sum(axis=2)
    M = cost[linear_sum_assignment(cost)].sum()
    own = cost[cluster[chosen], np.arange(len(chosen))].sum()
    return float(M), float(own)
