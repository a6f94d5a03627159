"""EMD to the uniform class distribution, on sets small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedactive.analysis.diversity import class_emd, global_emd, local_emd, transport_cost


def test_balanced_and_single_class() -> None:
    assert class_emd(np.array([3, 1, 2, 0]), 4) == 0
    assert class_emd(np.array([2, 2, 2]), 4) == pytest.approx(1 - 1 / 4)


def test_missing_classes_count() -> None:
    assert class_emd(np.array([0, 1]), 4) == pytest.approx(0.5)


def test_single_class_clients_can_be_balanced_together() -> None:
    clients = [np.array([0, 0]), np.array([1, 1])]
    assert local_emd(clients, 2) == pytest.approx(0.5)
    assert global_emd(clients, 2) == 0


def test_local_weighs_clients_equally_and_global_samples() -> None:
    clients = [np.array([0]), np.array([0, 1, 0, 1])]
    assert local_emd(clients, 2) == pytest.approx(0.25)
    assert global_emd(clients, 2) == pytest.approx(0.1)


def test_no_samples() -> None:
    with pytest.raises(ValueError, match="without samples"):
        class_emd(np.array([], dtype=np.int64), 3)


def test_transport_cost_by_hand() -> None:
    """Clusters {0, 2} and {10, 14} on a line have centroids 1 and 12."""
    points, cluster = np.array([[0.0], [2.0], [10.0], [14.0]]), np.array([7, 7, 3, 3])
    assert transport_cost(points, cluster, np.array([0, 2])) == (1 + 4, 1 + 4)  # one of each
    assert transport_cost(points, cluster, np.array([0, 1])) == (1 + 100, 1 + 1)  # 2 has to serve 12
    with pytest.raises(ValueError, match="3 queries for 2 clusters"):
        transport_cost(points, cluster, np.array([0, 1, 2]))
