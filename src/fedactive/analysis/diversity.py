"""How diverse labelled and queried sets are: balance of their classes, and nearness to the pool's clusters.

The earth mover's distance between classes that are all equally far apart is the total variation distance
½·Σ|p_c - 1/C|, from 0 (balanced) to 1 - 1/C (one class only)
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix B).
All of this works on counts of labels: classes in the last axis, clients in the one before.
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
    """EMD to uniform of each set; a set without samples has no distribution, so NaN."""
    n = np.asarray(counts, dtype=np.float64)
    size = n.sum(axis=-1, keepdims=True)
    p = np.divide(n, size, out=np.full_like(n, np.nan), where=size > 0)
    return np.asarray(np.abs(p - 1 / n.shape[-1]).sum(axis=-1) / 2)


def local_emd(counts: ArrayLike) -> NDArray[np.float64]:
    """Mean over the clients that have labels of the EMD of each one's own; NaN if none has any."""
    emd = class_emd(counts)
    has = ~np.isnan(emd)
    clients = has.sum(axis=-1)
    total = np.where(has, emd, 0).sum(axis=-1)
    return np.asarray(np.divide(total, clients, out=np.full(clients.shape, np.nan), where=clients > 0))


def global_emd(counts: ArrayLike) -> NDArray[np.float64]:
    """EMD of all clients' labels together."""
    return class_emd(np.asarray(counts).sum(axis=-2))


def emd_by_round(queried: Counts) -> pd.DataFrame:
    """`al_round, what, local, global`: EMD of each round's query sets and of all that is labelled by then.

    `queried` are counts by AL round, client and class. A round in which nobody asked has no sets, so NaN.
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
    """Labels of each client (rows k1, k2 ...) by class (columns c1, c2 ...), and of all (the last row)."""
    return _matrix(labelled, labelled.sum(axis=0))


def accuracy_matrix(local_only: ArrayLike, whole: ArrayLike) -> pd.DataFrame:
    """Class-wise test accuracy in percent: a row per client's local-only model, then the global model's."""
    return _matrix(100 * np.asarray(local_only), 100 * np.asarray(whole))


def _matrix(clients: NDArray[np.generic], everyone: NDArray[np.generic]) -> pd.DataFrame:
    K, C = clients.shape
    rows = [*(f"k{k}" for k in range(1, K + 1)), EVERYONE]
    return pd.DataFrame(np.vstack([clients, everyone]), rows, [f"c{c}" for c in range(1, C + 1)])


def transport_cost(
    points: NDArray[np.floating], cluster: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[float, float]:
    """M of the paper's Remark 2 (Eq. 10), and what it would be if every query served its own cluster.

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
    M = cost[scipy.optimize.linear_sum_assignment(cost)].sum()
    own = cost[cluster[chosen], np.arange(len(chosen))].sum()
    return float(M), float(own)


# ---------------------------------------------------------------------------------------- of a run


def local_emd_in(run: StoredRun, al_round: int) -> float:
    """Mean over clients of the EMD of their labels so far; NaN where only the sites know labels."""
    return float(local_emd(run.labelled(al_round))) if run.queried.size else math.nan


def global_emd_in(run: StoredRun, al_round: int) -> float:
    """EMD of all clients' labels so far; NaN where only the sites know labels."""
    return float(global_emd(run.labelled(al_round))) if run.queried.size else math.nan


def matrices_in(run: StoredRun, al_round: int) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Labels and class-wise accuracy by client, if local-only models were trained on that round's labels.

    They are trained at the next query, by strategies that use them.
    """
    this = run.al_rounds[al_round - 1]
    if not this.local_class_accuracy or not run.queried.size:
        return None
    counts = count_matrix(run.labelled(al_round))
    return counts, accuracy_matrix(this.local_class_accuracy, this.class_accuracy)
