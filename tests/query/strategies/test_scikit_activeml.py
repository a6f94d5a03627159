"""The strategies for few labels against those of scikit-activeml, on the same clusters and radii."""

import numpy as np
import pytest
import torch
from skactiveml.pool import ProbCover, TypiClust
from torch.nn.functional import normalize

from fedactive.query.kernels import kmeans, squared_distances
from fedactive.query.strategies import probcover, typiclust


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


class Given:
    """A clustering algorithm that finds what it was given."""

    def __init__(self, n_clusters: int, labels: np.ndarray) -> None:
        self.labels = labels

    def fit_predict(self, x: np.ndarray) -> np.ndarray:
        return self.labels


def groups(sizes: list[int], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of clusters of different sizes, and the cluster of each, in random order."""
    cluster = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    cluster = cluster[torch.randperm(len(cluster), generator=rng(seed))]
    return 6 * torch.eye(len(sizes))[cluster] + torch.randn(
        len(cluster), len(sizes), generator=rng(seed + 1)
    ), cluster


@pytest.mark.parametrize("seed", range(3))
def test_typiclust_serves_the_same_clusters_with_the_same_samples(seed):
    """Clusters without labels, the largest first; theirs has no least size, and as many neighbours for all."""
    sizes, known = [60, 55, 50, 48, 46, 44], 2
    x, cluster = groups(sizes, seed)
    labelled = torch.stack([(cluster == c).nonzero()[0, 0] for c in range(known)])
    rest = torch.tensor([i for i in range(len(x)) if i not in labelled.tolist()])
    y = np.full(len(x), np.nan)
    y[labelled] = 0
    settings = {"labels": cluster.numpy()}
    oracle = TypiClust(cluster_algo=Given, cluster_algo_dict=settings, k=typiclust.NEIGHBOURS, random_state=0)
    expected = oracle.query(x.numpy(), y, batch_size=len(sizes) - known)
    order = torch.cat([rest, labelled])
    score = typiclust.typicality(x[order], cluster[order], len(sizes))[: len(rest)]
    found = typiclust.in_turn(cluster[order], score, len(sizes), rng())[: len(sizes) - known]
    assert rest[found].tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_probcover_finds_the_same_radius_and_covers_as_much_with_each_sample(seed):
    """Which sample it is may differ where several cover equally many; the first steps have no such ties."""
    x, _ = groups([60, 30, 20], seed)
    x = normalize(x)
    cluster = kmeans(x, 3, rng(seed), restarts=1)
    settings = {"labels": cluster.numpy()}
    radii = probcover.RADII.numpy()
    oracle = ProbCover(
        n_classes=3, deltas=radii, cluster_algo=Given, cluster_algo_dict=settings, random_state=0
    )
    _, utilities = oracle.query(x.numpy(), np.full(len(x), np.nan), batch_size=3, return_utilities=True)
    distances = squared_distances(x, x).sqrt()
    delta = probcover.estimate_radius(x, distances, 3, rng(seed))
    assert delta == pytest.approx(oracle.delta_max_)
    _, gains = probcover.cover(distances < delta, torch.zeros(len(x), dtype=torch.bool), 3)
    assert gains.tolist() == np.nanmax(utilities, axis=1).tolist()
