import pytest
import torch
from sklearn.cluster import KMeans

from fedactive.query.kernels import kmeans, kmeans_plus_plus, squared_distances, top


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inertia(points, cluster) -> float:
    return sum(
        float(((points[cluster == c] - points[cluster == c].mean(0)) ** 2).sum()) for c in cluster.unique()
    )


def test_top_orders_by_score_and_breaks_ties_at_random():
    assert top(torch.tensor([1.0, 3, 2]), 2, rng()).tolist() == [1, 2]
    firsts = {top(torch.zeros(4), 1, rng(seed)).item() for seed in range(30)}
    assert firsts == {0, 1, 2, 3}


def test_distances():
    x, c = torch.randn(20, 5, generator=rng(1)), torch.randn(6, 5, generator=rng(2))
    assert torch.allclose(squared_distances(x, c), torch.cdist(x, c) ** 2, atol=1e-4)


def test_separate_groups_are_found():
    centres = torch.tensor([[0.0, 0], [20, 0], [0, 20]])
    points = (centres.repeat_interleave(30, 0) + torch.randn(90, 2, generator=rng())).float()
    cluster = kmeans(points, 3, rng())
    assert all(len(cluster[i * 30 : (i + 1) * 30].unique()) == 1 for i in range(3))
    assert len(cluster.unique()) == 3


@pytest.mark.parametrize("k", [2, 10, 40])
def test_as_good_as_scikit_learn(k):
    points = torch.randn(400, 6, generator=rng(3))
    theirs = KMeans(k, n_init=10, random_state=0).fit(points.numpy()).inertia_
    assert inertia(points, kmeans(points, k, rng())) < 1.03 * theirs


def test_empty_clusters_are_repaired_and_duplicates_tolerated():
    points = torch.tensor([[0.0], [0.0], [0.0], [5.0], [9.0]])
    assert len(kmeans(points, 3, rng()).unique()) == 3
    assert len(kmeans(points, 5, rng()).unique()) == 3  # there are only three different points
    assert kmeans(torch.ones(4, 2), 4, rng()).shape == (4,)


def test_seeding_prefers_far_points():
    points = torch.cat([torch.zeros(99, 1), torch.full((1, 1), 100.0)])
    assert all(100.0 in kmeans_plus_plus(points, 2, rng(seed)) for seed in range(10))
