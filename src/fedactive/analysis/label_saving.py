"""How many labels one method needs for what another reaches: read off the other's mean learning curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def labels_needed(labelled: ArrayLike, accuracy: ArrayLike, target: float) -> float:
    """Return where a learning curve first reaches the target, between its points on a straight line.

    At the first point or below it the answer is that point: how far below, the curve does not say. A target
    that the curve never reaches gives infinity.
    """
    x, y = np.asarray(labelled, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    if x.size == 0 or x.size != y.size or np.any(np.diff(x) < 0):
        raise ValueError(
            "a learning curve has an accuracy for each of its numbers of labels, which only grow"
        )
    reached = np.flatnonzero(y >= target)
    if not reached.size:
        return np.inf
    i = int(reached[0])
    if i == 0:
        return float(x[0])
    share = (target - y[i - 1]) / (y[i] - y[i - 1])
    return float(x[i - 1] + share * (x[i] - x[i - 1]))
