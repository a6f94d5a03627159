"""The long tail keeps the published class sizes, from the images each class has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedactive.data.imbalance import long_tail, others_of_class
from fedactive.errors import ConfigurationError

BALANCED = np.repeat(np.arange(10), 5000)


@pytest.mark.parametrize(("rho", "samples"), [(1, 50_000), (5, 25_423), (10, 20_431), (20, 17_023)])
def test_published_sizes(rho: float, samples: int) -> None:
    kept = long_tail(BALANCED, rho, np.random.default_rng(0))
    sizes = np.bincount(BALANCED[kept])
    assert len(kept) == samples
    assert sizes[0] == 5000
    assert sizes[9] == 5000 // rho
    assert (np.diff(sizes) <= 0).all()


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=80).map(np.array),
    st.floats(1, 100),
    st.integers(0, 2**32),
)
def test_sorted_subset_never_larger_than_the_class(labels: np.ndarray, rho: float, seed: int) -> None:
    rho = min(rho, np.bincount(labels).max())
    kept = long_tail(labels, rho, np.random.default_rng(seed))
    assert (np.diff(kept) > 0).all()
    sizes = np.bincount(labels)
    position = np.arange(len(sizes)) / max(len(sizes) - 1, 1)
    tail = np.maximum((sizes.max() * (1 / rho) ** position).astype(int), 1)
    assert np.bincount(labels[kept], minlength=len(sizes)).tolist() == np.minimum(tail, sizes).tolist()


def test_rho_1_keeps_everything_even_if_imbalanced() -> None:
    labels = np.array([2, 0, 1, 2, 2, 0])
    assert long_tail(labels, 1, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4, 5]


def test_the_seed_decides_which_images_stay() -> None:
    kept = [long_tail(BALANCED, 10, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert np.array_equal(kept[0], kept[1])
    assert not np.array_equal(kept[0], kept[2])


@pytest.mark.parametrize("rho", [0.5, 0, -3, float("nan"), float("inf")])
def test_impossible_ratio(rho: float) -> None:
    with pytest.raises(ConfigurationError, match="rho"):
        long_tail(BALANCED, rho, np.random.default_rng(0))


@pytest.mark.parametrize("images", [3, 49, 98, 1000])
def test_no_class_vanishes(images: int) -> None:
    labels = np.repeat(np.arange(10), images)
    sizes = np.bincount(labels[long_tail(labels, images, np.random.default_rng(0))])
    assert (sizes[0], sizes[9]) == (images, 1)
    with pytest.raises(ConfigurationError, match=f"rho: .* allowed is at most {images}, the images of the"):
        long_tail(labels, images + 1, np.random.default_rng(0))


def test_others_of_class_are_drawn_anew_with_the_same_labels():
    labels = np.repeat([0, 1, 2], [50, 50, 50])
    kept = np.concatenate([np.arange(40), 50 + np.arange(20), 100 + np.arange(5)])
    shown = others_of_class(labels, kept, np.random.default_rng(0))
    assert np.array_equal(labels[shown], labels[kept])
    assert len(set(shown)) == len(kept)  # each image once
    assert (shown != kept).mean() > 0.9
    assert not set(shown) <= set(kept)  # also images that nobody trains on
    assert np.array_equal(shown, others_of_class(labels, kept, np.random.default_rng(0)))
