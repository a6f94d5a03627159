"""A long tail: the classes of a balanced dataset thinned exponentially, from all images down to one in rho.

The global imbalance ratio rho is the size of the first class over that of the last
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix A).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedactive.errors import ConfigurationError


def long_tail(labels: NDArray[np.int64], rho: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the sorted indices of the images kept; `rng` draws which images of a class these are."""
    keep = long_tail_sizes(np.bincount(labels), rho)
    kept = [rng.permutation(np.flatnonzero(labels == c))[:size] for c, size in enumerate(keep)]
    return np.sort(np.concatenate(kept))


def others_of_class(
    labels: NDArray[np.int64], kept: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return another place in the dataset for each image kept: images of its class, drawn anew.

    In the released code the copy to train on and the copy to query are thinned and shuffled independently, so
    that strategies score one image and clients train on another, with the same label.
    """
    shown = kept.copy()
    for c in np.unique(labels[kept]):
        mine = labels[kept] == c
        shown[mine] = rng.permutation(np.flatnonzero(labels == c))[: mine.sum()]
    return shown


def long_tail_sizes(sizes: NDArray[np.int64], rho: float) -> NDArray[np.int64]:
    """Return what each class keeps: n_max·(1/rho)^(c/(C-1)), n_max the largest class; all if it has fewer."""
    if not 1 <= rho < np.inf:
        raise ConfigurationError("rho", rho, "a number, 1 (all images are kept) or more")
    largest = int(sizes.max())
    if rho > largest:
        at_most = f"at most {largest}, the images of the largest class, so that every class keeps one"
        raise ConfigurationError("rho", rho, at_most)
    C = len(sizes)
    position = np.arange(C) / max(C - 1, 1)  # from 0 for the first class to 1 for the last
    tail: NDArray[np.int64] = (largest * (1 / rho) ** position).astype(np.int64)
    return np.minimum(np.maximum(tail, 1), sizes)  # 1 is what rounding may leave of the last class
