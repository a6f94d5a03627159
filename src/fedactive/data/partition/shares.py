"""The matrix that both partitions start from: the share of each class that every client wants.

Each of the K clients draws its class mixture from Dirichlet(alpha·1) over the C classes; scaling then makes
all clients equally large and all classes equally wanted
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix A).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedactive.errors import ConfigurationError

# A positive matrix can always be balanced, but the nearer each client is to a single class, the slower this
# goes: tens of passes at alpha = 0.1, up to thousands at 0.01. Below that the matrix stays less balanced.
MOST_PASSES = 10_000


def dirichlet_shares(
    clients: int, classes: int, alpha: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw a balanced K×C matrix of Dirichlet(alpha) rows; alpha = inf is the limit, the uniform matrix."""
    if np.isinf(alpha):
        return np.full((clients, classes), 1 / classes)
    return balanced(rng.dirichlet(np.full(classes, alpha), size=clients))


def balanced(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalise columns and rows in turn until every row sums to 1 and every column nearly to K/C."""
    K, C = rows.shape
    tolerance = min(K / C, C / K) / 1000
    # A column of draws that all underflowed to 0 could not be scaled. Once positive, none vanishes again:
    # after each normalisation every row and column has an entry that is not small.
    shares = np.maximum(rows, np.finfo(np.float64).tiny)
    for _ in range(MOST_PASSES):
        shares = shares / shares.sum(axis=0) * (K / C)
        shares = shares / shares.sum(axis=1, keepdims=True)
        if shares.sum(axis=0).min() > K / C - tolerance:
            break
    return shares


def check_request(samples: int, clients: int, alpha: float) -> None:
    """Refuse numbers that no partition can satisfy, before any work starts."""
    if not 1 <= clients <= samples:
        raise ConfigurationError("clients", clients, f"1 to {samples}, the number of samples")
    if not alpha > 0:
        raise ConfigurationError("alpha", alpha, "a positive number, or inf for identical clients")
