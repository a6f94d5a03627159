"""The reference partition meets the paper's numbers from CIFAR-10's official training labels alone."""

from __future__ import annotations

import hashlib
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from fedactive.analysis.diversity import global_emd, local_emd
from fedactive.data.partition import reference
from fedactive.data.partition.reference import draw_in_turns, fill_up, torch_shares
from fedactive.errors import ConfigurationError

DERMA_MNIST_SIZES = [228, 359, 769, 80, 779, 4693, 99]


@pytest.fixture(scope="module")
def cifar10() -> np.ndarray:
    with np.load(Path(__file__).parent / "cifar10_train_labels.npz") as file:
        return file["labels"].astype(np.int64)


@pytest.mark.parametrize(
    ("rho", "alpha", "seed", "local", "overall"),
    [
        (1, 0.1, 1, 0.632, 0.019),
        (1, 1, 1, 0.297, 0.017),
        (5, 0.1, 2, 0.662, 0.211),
        (5, 1, 2, 0.402, 0.206),
        (5, math.inf, 2, 0.213, 0.206),
        (10, 0.1, 1, 0.692, 0.280),
        (10, 1, 1, 0.491, 0.297),
        (10, math.inf, 1, 0.315, 0.303),
        (20, 0.1, 1, 0.692, 0.377),
        (20, 1, 1, 0.481, 0.374),
        (20, math.inf, 1, 0.371, 0.368),
    ],
)
def test_emd_of_the_first_labels(
    cifar10: np.ndarray, rho: float, alpha: float, seed: int, local: float, overall: float
) -> None:
    """The published EMD at 10% labels: every row of the table but rho = 1, alpha = inf."""
    split = reference(cifar10, 10, 10, alpha, rho, budget=10, seed=seed)
    counts = [np.bincount(cifar10[indices], minlength=10) for indices in split.first_labels]
    assert round(float(local_emd(counts)), 3) == local
    assert round(float(global_emd(counts)), 3) == overall


@pytest.mark.parametrize(
    ("rho", "alpha", "digest"),
    [(1, 0.1, "9907e86944e2a755"), (5, 0.1, "80579c2e0ed866fb"), (5, 1, "811916a6feb8c79f")],
)
def test_runs_of_earlier_versions_had_the_same_samples(
    cifar10: np.ndarray, rho: float, alpha: float, digest: str
) -> None:
    split = reference(cifar10, 10, 10, alpha, rho, budget=5, seed=1)
    samples = b"".join(part.tobytes() for part in (*split.pools, *split.first_labels))
    assert hashlib.sha256(samples).hexdigest().startswith(digest)


@pytest.mark.parametrize(("rho", "samples", "budget"), [(1, 50_000, 250), (5, 25_423, 127)])
def test_every_kept_sample_once(cifar10: np.ndarray, rho: float, samples: int, budget: int) -> None:
    split = reference(cifar10, 10, 10, 0.1, rho, budget=5, seed=3)
    assert len(np.unique(split.kept)) == len(split.kept) == samples
    assert max(len(pool) for pool in split.pools) == math.ceil(samples / 10)
    for pool, first in zip(split.pools, split.first_labels, strict=True):
        assert len(np.unique(first)) == len(first) == budget
        assert np.isin(first, pool).all()


def test_a_quarter_of_derma_mnist_is_handed_out() -> None:
    """With 7 classes of very different sizes many clients are full before the largest class is used up."""
    labels = np.repeat(np.arange(7), DERMA_MNIST_SIZES)
    left_over = []
    for seed in (1, 2, 3):
        shares = torch_shares(len(labels), 10, 7, 0.1, seed)
        pools, rest = draw_in_turns(labels, shares, random.Random(seed))
        left_over.append(len(rest) / len(labels))
        assert (np.diff(labels[rest]) >= 0).all()
        assert np.sort(np.concatenate(fill_up(pools, rest))).tolist() == list(range(len(labels)))
    assert np.mean(left_over) == pytest.approx(0.25, abs=0.05)


def test_clients_take_turns_until_they_are_full_or_a_class_is_used_up() -> None:
    # Of four and two samples, half of each class is wanted: 2 of the first, and one more; 1 of the second, so none.
    labels = np.array([0, 0, 0, 0, 1, 1])
    pools, rest = draw_in_turns(labels, np.full((2, 2), 0.5), random.Random(0))
    assert [labels[pool].tolist() for pool in pools] == [[0, 0, 0], [0]]
    assert rest == [4, 5]


def test_global_generators_are_left_alone(cifar10: np.ndarray) -> None:
    def global_states() -> tuple[object, list[int], list[int]]:
        numpy_state = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
        return random.getstate(), numpy_state.tolist(), torch.get_rng_state().tolist()

    before = global_states()
    first = reference(cifar10, 10, 10, 0.1, 5, budget=10, seed=1)
    assert global_states() == before
    second = reference(cifar10, 10, 10, 0.1, 5, budget=10, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(first.pools, second.pools, strict=True))


@pytest.mark.parametrize(
    ("clients", "alpha", "percent", "field"),
    [
        (0, 1, 10, "clients"),
        (501, 1, 10, "clients"),
        (10, -1, 10, "alpha"),
        (10, 1, 0, "budget"),
    ],
)
def test_impossible_requests(clients: int, alpha: float, percent: float, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        reference(np.repeat(np.arange(5), 100), 5, clients, alpha, 1, percent, seed=1)


@pytest.mark.parametrize(
    ("field", "most", "more"),
    [("seed", 2**32 - 1, 2**32), ("alpha", 10_000, 10_001), ("alpha", 10_000, 1e39)],
)
def test_what_its_generators_cannot_take_is_told(field, most, more):
    request = {"clients": 3, "alpha": 0.1, "rho": 1.0, "budget": 5.0, "seed": 1}
    assert len(reference(np.arange(1000) % 10, 10, **request | {field: most}).pools) == 3
    with pytest.raises(ConfigurationError, match=f"{field}: .* with partition reference"):
        reference(np.arange(1000) % 10, 10, **request | {field: more})


def test_no_client_labels_more_than_it_has():
    split = reference(np.arange(150) % 3, 3, clients=1, alpha=1.0, rho=1.0, budget=100.0, seed=1)
    assert [len(first) for first in split.first_labels] == [150]  # not 200, which 150 is rounded to
