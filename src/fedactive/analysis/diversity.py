"""Measure how diverse labelled and queried sets are: class balance, and distance to the pool's clusters.

The earth mover's distance between classes that are all equally far apart is the total variation distance
½·Σ|p_c - 1/C|, from 0 (balanced) to 1 - 1/C (one class only)
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix B).
Functions take counts of labels, with classes in the last axis and clients in the one before.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from fedactive.record.stored import StoredRun

Counts = NDArray[np.int64]
LABELLED, QUERY = "labelled", "query"
EVERYONE = "all"  # the last row of a matrix


def class_emd(counts: ArrayLike) -> NDArray[np.float64]:
    """Compute the EMD of each set to the uniform distribution; NaN for a set without samples."""
    n = np.asarray(counts, dtype=np.float64)
    size = n.sum(axis=-1, keepdims=True)
    p = np.divide(n, size, out=np.full_like(n, np.nan), where=size > 0)
    return np.asarray(np.abs(p - 1 / n.shape[-1]).sum(axis=-1) / 2)


def local_emd(counts: ArrayLike) -> NDArray[np.float64]:
    """Compute the mean EMD of the clients' own labels, over the clients that have labels; NaN if none has."""
    known = np.ma.masked_invalid(class_emd(counts))
    return np.ma.filled(known.mean(axis=-1), np.nan)


def global_emd(counts: ArrayLike) -> NDArray[np.float64]:
    """Compute the EMD of all clients' labels together."""
    return class_emd(np.asarray(counts).sum(axis=-2))


def emd_by_round(queried: Counts) -> pd.DataFrame:
    """Make a table `al_round, what, local, global`: EMD of each round's query sets and of the labelled sets.

    `queried` are counts by AL round, client and class. In a round without queries, that of query sets is NaN.
    """
    R = len(queried)
    sets = np.stack([queried.cumsum(axis=0), queried])
    return pd.DataFrame(
        {
            "al_round": np.tile(np.arange(1, R + 1), 2),
            "what": np.repeat([LABELLED, QUERY], R),
            "local": local_emd(sets).ravel(),
            "global": global_emd(sets).ravel(),
        }
    )


def count_matrix(labelled: Counts) -> pd.DataFrame:
    """Make a table of labels by client (rows k1, k2 ...) and class (columns c1, c2 ...); last row: all."""
    return _matrix(labelled, labelled.sum(axis=0))


def accuracy_matrix(local_only: ArrayLike, whole: ArrayLike) -> pd.DataFrame:
    """Make a table of accuracy by class in percent: the clients' local-only models, then the global model."""
    return _matrix(100 * np.asarray(local_only), 100 * np.asarray(whole))


def _matrix(clients: NDArray[np.generic], everyone: NDArray[np.generic]) -> pd.DataFrame:
    K, C = clients.shape
    rows = [*(f"k{k}" for k in range(1, K + 1)), EVERYONE]
    return pd.DataFrame(np.vstack([clients, everyone]), rows, [f"c{c}" for c in range(1, C + 1)])


def transport_cost(
    points: NDArray[np.floating], cluster: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[float, float]:
    """Compute M of the paper's Remark 2 (Eq. 10), and Σ_x ‖x - its own centroid‖² over the queries x.

    M is the least total squared distance of a one-to-one mapping between the centroids of the (non-empty)
    clusters and the queries. If every point belongs to its nearest centroid, the second number is at most M,
    and the two are equal if no two queries share a cluster.
    """
    names, cluster = np.unique(cluster, return_inverse=True)
    if len(chosen) != len(names):
        raise ValueError(f"{len(chosen)} queries for {len(names)} clusters: not one to one")
    x = points.astype(np.float64)
    centroids = np.stack([x[cluster == c].mean(axis=0) for c in range(len(names))])
    cost = ((centroids[:, None] - x[chosen][None]) ** 2).sum(axis=2)
    M = cost[scipy.optimize.linear_sum_assignment(cost)].sum()
    own = cost[cluster[chosen], np.arange(len(chosen))].sum()
    return float(M), float(own)


# ---------------------------------------------------------------------------------------- of a run


def local_emd_in(run: StoredRun, al_round: int) -> float:
    """Compute the local EMD of all labels so far; NaN where only the sites know labels."""
    return float(local_emd(run.labelled(al_round))) if run.queried.size else math.nan


def global_emd_in(run: StoredRun, al_round: int) -> float:
    """Compute the global EMD of all labels so far; NaN where only the sites know labels."""
    return float(global_emd(run.labelled(al_round))) if run.queried.size else math.nan


def matrices_in(run: StoredRun, al_round: int) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Make the tables of labels and of accuracy by client and class; None without local-only models.

    Strategies that use these models train them at the next query.
    """
    this = run.al_rounds[al_round - 1]
    if not this.local_class_accuracy or not run.queried.size:
        return None
    counts = count_matrix(run.labelled(al_round))
    return counts, accuracy_matrix(this.local_class_accuracy, this.class_accuracy)
