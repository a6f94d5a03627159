import pytest
import torch

from fedactive.query import make_strategy
from fedactive.query.kernels import kmeans
from fedactive.query.strategies.probcover import cover, estimate_radius


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", range(5))
def test_the_greedy_cover_is_that_of_sets(seed):
    near = torch.rand(40, 40, generator=rng(seed)) < 0.1
    near = near | near.T | torch.eye(40, dtype=torch.bool)
    covered = torch.rand(40, generator=rng(seed + 9)) < 0.3
    chosen, gains = cover(near, covered, 40)
    balls = [set(row.nonzero()[:, 0].tolist()) for row in near]
    done = set(covered.nonzero()[:, 0].tolist())
    left = set(range(40))
    for i, gain in zip(chosen.tolist(), gains.tolist(), strict=True):
        assert gain == len(balls[i] - done) == max(len(balls[j] - done) for j in left)
        done |= balls[i]
        left.remove(i)


def test_the_radius_is_the_largest_at_which_balls_are_pure():
    """Two tight blobs on the unit sphere, √2 apart."""
    x = torch.eye(2).repeat_interleave(30, 0) + 0.001 * torch.randn(60, 2, generator=rng())
    x = torch.nn.functional.normalize(x)
    assert estimate_radius(x, torch.cdist(x, x), 2, rng()) == pytest.approx(1.4)


def test_the_radius_by_counting_balls():
    x = torch.nn.functional.normalize(torch.randn(60, 3, generator=rng()))
    distances = torch.cdist(x, x)
    cluster = kmeans(x, 2, rng(), restarts=1)
    balls = {radius / 20: distances < radius / 20 for radius in range(1, 41)}
    pure = {
        radius: sum(len(set(cluster[ball].tolist())) == 1 for ball in near) / 60
        for radius, near in balls.items()
    }
    expected = max([radius for radius, share in pure.items() if share >= 0.95], default=0.05)
    assert estimate_radius(x, distances, 2, rng()) == pytest.approx(expected)
    assert 0 < len([share for share in pure.values() if share >= 0.95]) < 40


def test_what_labels_cover_is_not_chosen(make_pool):
    x = torch.eye(3).repeat_interleave(torch.tensor([30, 20, 10]), 0)
    pool = make_pool(60, 3, labelled=1, dimensions=3, global_embeddings=x)
    labelled = pool.labelled("global")
    labelled.embeddings.copy_(torch.tensor([[5.0, 0, 0]]))  # its length does not matter
    pool.labelled = lambda model: labelled
    chosen = make_strategy("probcover", "global", "delta=0.5").select(pool, 2, rng())
    assert [30 <= i < 50 for i in chosen.indices.tolist()] == [True, False]
    assert chosen.indices[1] >= 50
    assert chosen.scores.tolist() == [20, 10]
