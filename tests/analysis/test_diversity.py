"""EMD to the uniform class distribution, on sets small enough to check by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedactive.analysis.diversity import (
    accuracy_matrix,
    class_emd,
    count_matrix,
    emd_by_round,
    global_emd,
    global_emd_in,
    local_emd,
    local_emd_in,
    matrices_in,
    transport_cost,
)
from fedactive.record.stored import ALRound, StoredRun


def test_balanced_and_single_class() -> None:
    assert class_emd([1, 1, 1, 1]) == 0
    assert class_emd([0, 0, 3, 0]) == pytest.approx(1 - 1 / 4)


def test_missing_classes_count() -> None:
    assert class_emd([1, 1, 0, 0]) == pytest.approx(0.5)


def test_single_class_clients_can_be_balanced_together() -> None:
    assert local_emd([[2, 0], [0, 2]]) == pytest.approx(0.5)
    assert global_emd([[2, 0], [0, 2]]) == 0


def test_local_weighs_clients_equally_and_global_samples() -> None:
    assert local_emd([[1, 0], [2, 2]]) == pytest.approx(0.25)
    assert global_emd([[1, 0], [2, 2]]) == pytest.approx(0.1)


def test_no_samples_no_distribution() -> None:
    assert np.isnan(class_emd([0, 0, 0]))
    assert local_emd([[0, 0], [2, 0]]) == pytest.approx(0.5)  # of the one client that has labels
    assert np.isnan(local_emd([[0, 0], [0, 0]]))
    assert np.isnan(global_emd([[0, 0], [0, 0]]))


def test_emd_by_round_of_queries_and_of_all_labels() -> None:
    """Client 0 asks for class 0, then 1; client 1 for class 1, then nothing; in round 3 nobody asks."""
    queried = np.array([[[2, 0], [0, 2]], [[0, 2], [0, 0]], [[0, 0], [0, 0]]])
    table = emd_by_round(queried).set_index(["what", "al_round"])
    assert table.loc["labelled", "local"].tolist() == [0.5, 0.25, 0.25]
    assert table.loc["labelled", "global"].tolist() == pytest.approx([0, 1 / 6, 1 / 6])
    assert table.loc["query", "local"].tolist() == pytest.approx([0.5, 0.5, np.nan], nan_ok=True)
    assert table.loc["query", "global"].tolist() == pytest.approx([0, 0.5, np.nan], nan_ok=True)


def test_matrices_end_with_everyone() -> None:
    counts = count_matrix(np.array([[1, 0, 2], [3, 0, 0]]))
    assert counts.loc["all"].tolist() == [4, 0, 2]
    assert counts.loc["k1", "c3"] == 2
    accuracy = accuracy_matrix([[0.5, 0], [0.25, 1]], [0.75, 0.5])
    assert accuracy.to_numpy().tolist() == [[50, 0], [25, 100], [75, 50]]
    assert accuracy.index.tolist() == ["k1", "k2", "all"]


def stored(queried: list[list[list[int]]], local: list[list[list[float]]]) -> StoredRun:
    """A run in which two clients asked for these labels, and their models had these accuracies, by AL round."""
    rounds = zip(queried, local, strict=True)
    al_rounds = [
        ALRound(r, 0, [0.5], [0.75, 0.5], own, asked, {}) for r, (asked, own) in enumerate(rounds, 1)
    ]
    return StoredRun(Path("runs"), "run", {}, al_rounds)


def test_of_a_run_all_labels_so_far_count() -> None:
    run = stored([[[2, 0], [0, 2]], [[0, 2], [0, 0]]], [[[0.5, 0.0], [0.25, 1.0]], []])
    assert [local_emd_in(run, 1), local_emd_in(run, 2)] == [0.5, 0.25]
    assert [global_emd_in(run, 1), global_emd_in(run, 2)] == pytest.approx([0, 1 / 6])
    counts, accuracy = matrices_in(run, 1) or (None, None)
    assert counts is not None
    assert counts.to_numpy().tolist() == [[2, 0], [0, 2], [2, 2]]
    assert accuracy.to_numpy().tolist() == [[50, 0], [25, 100], [75, 50]]
    assert matrices_in(run, 2) is None  # its local-only models are trained at the next query


def test_where_only_the_sites_know_labels_there_is_no_distance() -> None:
    run = stored([[]], [[[0.5, 0.0], [0.25, 1.0]]])
    assert np.isnan([local_emd_in(run, 1), global_emd_in(run, 1)]).all()
    assert matrices_in(run, 1) is None


def test_transport_cost_by_hand() -> None:
    """Clusters {0, 2} and {10, 14} on a line have centroids 1 and 12."""
    points, cluster = np.array([[0.0], [2.0], [10.0], [14.0]]), np.array([7, 7, 3, 3])
    assert transport_cost(points, cluster, np.array([0, 2])) == (1 + 4, 1 + 4)  # one of each
    assert transport_cost(points, cluster, np.array([0, 1])) == (1 + 100, 1 + 1)  # 2 has to serve 12
    plane, own = np.array([[0.0, 0.0], [2.0, 4.0]]), np.array([0, 0])
    assert transport_cost(plane, own, np.array([1])) == (1 + 4, 1 + 4)  # both coordinates count
    with pytest.raises(ValueError, match="3 queries for 2 clusters"):
        transport_cost(points, cluster, np.array([0, 1, 2]))
