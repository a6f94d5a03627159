"""The transport partition: exact in its sums, nearest in its shares, and as heterogeneous as alpha says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.analysis.diversity import class_emd, local_emd
from fedactive.data.partition.shares import balanced, dirichlet_shares
from fedactive.data.partition.transport import nearest_counts, transport
from fedactive.errors import ConfigurationError


def class_counts(labels: np.ndarray, pools: list[np.ndarray], classes: int) -> np.ndarray:
    return np.array([np.bincount(labels[pool], minlength=classes) for pool in pools])


ALPHAS = [0.001, 0.01, 0.1, 1.0, 10.0, 1e6, math.inf]


@st.composite
def requests(draw: st.DrawFn) -> tuple[np.ndarray, int, int, float, int]:
    """Labels with imbalanced or empty classes, C, K up to N, alpha and a seed."""
    C = draw(st.integers(1, 12))
    sizes = draw(st.lists(st.integers(0, 40), min_size=C, max_size=C).filter(any))
    seed = draw(st.integers(0, 2**32))
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(C), sizes))
    K = draw(st.integers(1, min(30, len(labels))))
    return labels, C, K, draw(st.sampled_from(ALPHAS)), seed


@given(requests())
@settings(deadline=None)
def test_every_sample_once_and_equal_clients(request_: tuple[np.ndarray, int, int, float, int]) -> None:
    labels, C, K, alpha, seed = request_
    pools = transport(labels, C, K, alpha, np.random.default_rng(seed))
    N = len(labels)
    assert np.sort(np.concatenate(pools)).tolist() == list(range(N))
    assert [len(pool) for pool in pools] == [N // K + (k < N % K) for k in range(K)]
    again = transport(labels, C, K, alpha, np.random.default_rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(pools, again, strict=True))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_another_seed_is_another_partition(alpha: float) -> None:
    labels = np.repeat(np.arange(5), 40)
    first, second = (transport(labels, 5, 4, alpha, np.random.default_rng(seed)) for seed in (1, 2))
    assert not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_as_many_clients_as_samples() -> None:
    labels = np.repeat(np.arange(3), [5, 1, 0])
    pools = transport(labels, 3, 6, 0.1, np.random.default_rng(0))
    assert sorted(pool.tolist() for pool in pools) == [[i] for i in range(6)]


def test_heterogeneity_falls_with_alpha() -> None:
    labels = np.repeat(np.arange(10), 100)

    def mean_local_emd(alpha: float) -> float:
        splits = (transport(labels, 10, 10, alpha, np.random.default_rng(seed)) for seed in range(10))
        return float(np.mean([local_emd(class_counts(labels, pools, 10)) for pools in splits]))

    emds = [mean_local_emd(alpha) for alpha in (0.01, 0.1, 1, 10, math.inf)]
    assert emds == sorted(emds, reverse=True)
    assert emds[0] > 0.75
    assert emds[-1] == pytest.approx(0)


def test_infinite_alpha_is_stratified() -> None:
    """Every client has its share of every class, to the sample."""
    sizes = np.array([5000, 1234, 77, 3])
    labels = np.repeat(np.arange(4), sizes)
    pools = transport(labels, 4, 10, math.inf, np.random.default_rng(0))
    assert (np.abs(class_counts(labels, pools, 4) - sizes / 10) < 1).all()


def test_imbalanced_classes_stay_heterogeneous() -> None:
    sizes = [228, 359, 769, 80, 779, 4693, 99]
    labels = np.repeat(np.arange(7), sizes)
    pools = transport(labels, 7, 10, 0.1, np.random.default_rng(1))
    assert local_emd(class_counts(labels, pools, 7)) > class_emd(sizes)


@pytest.mark.parametrize(
    ("clients", "alpha", "field"), [(0, 1, "clients"), (7, 1, "clients"), (2, 0, "alpha")]
)
def test_impossible_requests(clients: int, alpha: float, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        transport(np.zeros(6, dtype=np.int64), 1, clients, alpha, np.random.default_rng(0))


def tables(row_sums: list[int], column_sums: list[int]) -> Iterator[list[list[int]]]:
    """All non-negative integer matrices with these sums."""
    if not row_sums:
        if not any(column_sums):
            yield []
        return
    for row in itertools.product(*(range(most + 1) for most in column_sums)):
        if sum(row) == row_sums[0]:
            left = [most - taken for most, taken in zip(column_sums, row, strict=True)]
            for rest in tables(row_sums[1:], left):
                yield [list(row), *rest]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    st.integers(1, 4),
    st.sampled_from([0.05, 0.3, 1.0, math.inf]),
    st.integers(0, 2**32),
)
@settings(deadline=None)
def test_no_table_is_nearer(sizes: list[int], K: int, alpha: float, seed: int) -> None:
    shares = dirichlet_shares(K, len(sizes), alpha, np.random.default_rng(seed))
    wanted = np.array(sizes) * shares / shares.sum(axis=0)
    rows = [sum(sizes) // K + (k < sum(sizes) % K) for k in range(K)]
    found = np.abs(nearest_counts(wanted, np.array(rows), np.array(sizes)) - wanted).sum()
    nearest = min(np.abs(np.array(table) - wanted).sum() for table in tables(rows, sizes))
    assert found == pytest.approx(nearest, abs=1e-5)


def test_every_distance_counts_alike() -> None:
    # One more each: the diagonal is 1.97 away, the other diagonal 2.03.
    counts = nearest_counts(np.array([[1.95, 1.7], [1.62, 1.4]]), np.array([3, 3]), np.array([3, 3]))
    assert counts.tolist() == [[2, 1], [1, 2]]


@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([a for a in ALPHAS if a >= 0.1]),
    st.integers(0, 99),
)
@settings(deadline=None)
def test_shares_are_balanced(K: int, C: int, alpha: float, seed: int) -> None:
    shares = dirichlet_shares(K, C, alpha, np.random.default_rng(seed))
    assert shares.sum(axis=1) == pytest.approx(np.ones(K))
    assert shares.sum(axis=0).min() > K / C - min(K / C, C / K) / 1000


def test_underflow_leaves_no_hole() -> None:
    """Nobody drew the second class; still all of it is wanted by someone."""
    shares = balanced(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    assert shares == pytest.approx(np.full((3, 2), 0.5))
