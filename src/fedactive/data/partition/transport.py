"""The default partition: equal clients, every sample assigned once, nearest to the Dirichlet shares.

The shares (Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023,
Appendix A) are fractions, and on imbalanced classes they do not add up to equal clients. An integer transport
problem finds the counts that do, moving the fewest samples away from the shares.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from fedactive.data.partition.shares import check_request, dirichlet_shares


def transport(
    labels: NDArray[np.int64], classes: int, clients: int, alpha: float, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return each client's sorted indices; sizes differ by at most 1; alpha = inf is stratified IID."""
    N, K = len(labels), clients
    check_request(N, K, alpha)
    shares = dirichlet_shares(K, classes, alpha, rng)
    class_sizes = np.bincount(labels, minlength=classes)
    client_sizes = np.full(K, N // K) + (np.arange(K) < N % K)
    counts = nearest_counts(class_sizes * shares / shares.sum(axis=0), client_sizes, class_sizes)

    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(K)]
    for c in range(classes):
        shuffled = rng.permutation(np.flatnonzero(labels == c))
        for part, piece in zip(parts, np.split(shuffled, np.cumsum(counts[:-1, c])), strict=True):
            part.append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]


def nearest_counts(
    wanted: NDArray[np.float64], row_sums: NDArray[np.int64], column_sums: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find the integer matrix x ≥ 0 with these row and column sums that minimises Σ|x - wanted|.

    With x = ⌊wanted⌋ - down + step + up, where the one step to ⌈wanted⌉ costs 1 - 2·fraction and every other
    unit 1, the cost is |x - wanted| at all integers, up to a constant. The constraints are those of a network
    flow, so every vertex is integral, and the simplex method ends at a vertex.
    """
    K, C = wanted.shape
    floor = np.floor(wanted)
    fraction = wanted - floor
    cells = np.ones(K * C)
    cost = np.concatenate([cells, 1 - 2 * fraction.ravel(), cells])
    most = np.concatenate([floor.ravel(), cells, np.tile(column_sums, K)])

    sparse = scipy.sparse
    row_of_cell = sparse.kron(sparse.eye_array(K), np.ones((1, C)))
    column_of_cell = sparse.kron(np.ones((1, K)), sparse.eye_array(C))
    sums = sparse.vstack([row_of_cell, column_of_cell])
    missing = np.concatenate([row_sums - floor.sum(axis=1), column_sums - floor.sum(axis=0)])
    solution = scipy.optimize.linprog(  # type: ignore[call-overload]  # the stubs know no sparse A_eq
        cost,
        A_eq=sparse.hstack([-sums, sums, sums]),
        b_eq=missing,
        bounds=np.column_stack([np.zeros_like(most), most]),
        method="highs-ds",
        options={"presolve": False},  # useless on a network, and takes seconds at K = 1000
    )
    down, step, up = np.rint(solution.x).reshape(3, K, C)
    counts: NDArray[np.int64] = (floor - down + step + up).astype(np.int64)
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == row_sums).all()
    assert (counts.sum(axis=0) == column_sums).all()
    return counts
