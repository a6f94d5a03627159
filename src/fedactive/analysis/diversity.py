"""How balanced the classes of labelled sets are: their distance to the uniform distribution.

The earth mover's distance between classes that are all equally far apart is the total variation distance
½·Σ|p_c - 1/C|, from 0 (balanced) to 1 - 1/C (one class only)
(Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix B).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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
