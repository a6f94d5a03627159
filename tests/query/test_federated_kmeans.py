"""Federated k-means: the clusters of all samples, from messages that give no sample away."""

import pytest
import torch
from sklearn.cluster import KMeans

from fedactive.query import federated_kmeans as fk
from fedactive.query.kernels import squared_distances


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def rngs(n):
    return [rng(k) for k in range(n)]


def blobs(groups, each, d=8, seed=1):
    centres = 4 * torch.eye(d)[:groups]
    return centres.repeat_interleave(each, 0) + 0.3 * torch.randn(groups * each, d, generator=rng(seed))


def test_a_message_has_no_cluster_of_fewer_than_five():
    points = torch.randn(12, 3, generator=rng())
    cluster = torch.tensor([0] * 5 + [1] * 4 + [2] * 2 + [3])
    message = fk.reported(points, cluster, 5)
    assert message.counts.tolist() == [5, 0, 0, 0, 0]
    assert torch.allclose(message.sums[0], points[:5].sum(0), atol=1e-6)
    assert (message.sums[1:] == 0).all()


def test_every_message_keeps_to_that(monkeypatch):
    sent = []
    original = fk.Sums

    def spy(*parts):
        sent.append(original(*parts))
        return sent[-1]

    monkeypatch.setattr(fk, "Sums", spy)
    fk.federated_kmeans([torch.randn(n, 4, generator=rng(n)) for n in (60, 9, 3)], 12, rngs(3), rng())
    assert len(sent) >= 6
    assert all(count == 0 or count >= fk.SMALLEST for message in sent for count in message.counts.tolist())
    assert all((message.sums[message.counts == 0] == 0).all() for message in sent)


def test_clients_apart_find_what_one_would_find_with_all_samples():
    """Each client has two of six groups."""
    points = blobs(6, 40)
    clients = [points[:80], points[80:160], points[160:]]
    centres = fk.federated_kmeans(clients, 6, rngs(3), rng())
    found = squared_distances(points, centres).amin(1).sum()
    theirs = KMeans(6, n_init=10, random_state=0).fit(points.numpy()).inertia_
    assert found < 1.01 * theirs


def test_clients_with_few_samples():
    assert fk.federated_kmeans([torch.ones(3, 4), torch.ones(2, 4)], 3, rngs(2), rng()).tolist() == [
        [0.0] * 4
    ]
    centres = fk.federated_kmeans([torch.ones(7, 4), torch.ones(2, 4)], 3, rngs(2), rng())
    assert centres.tolist() == [[1.0] * 4]


def message(*clusters):
    """From the mean of each cluster and how many samples it has."""
    counts = torch.tensor([n for _, n in clusters])
    return fk.Sums(torch.tensor([mean for mean, _ in clusters]) * counts[:, None], counts)


def test_points_belong_to_the_nearest_centre():
    points, centres = torch.randn(20, 3, generator=rng()), torch.randn(4, 3, generator=rng(1))
    expected = [min(range(4), key=lambda c: float((x - centres[c]).norm())) for x in points]
    assert fk.nearest(points, centres).tolist() == expected


def test_a_client_begins_with_a_cluster_for_every_ten_samples():
    for groups, each, clusters, counts in ((3, 10, 9, [10] * 3), (3, 10, 1, [30]), (1, 9, 5, [9])):
        points = blobs(groups, each)
        sent = fk.start(points, clusters, rng())
        assert sent.counts.tolist() == counts
        assert torch.allclose(sent.sums.sum(0), points.sum(0), atol=1e-4)


def test_the_server_clusters_means_and_weighs_them_by_their_samples():
    one, two = message(([0.0], 5), ([10.0], 50), ([99.0], 0)), message(([0.11], 50), ([10.11], 5))
    assert sorted(fk.merge([one, two], 2, rng()).flatten().tolist()) == pytest.approx([0.1, 10.01])


def test_equal_means_are_one_centre():
    assert fk.merge([message(([3.0], 5)), message(([3.0], 7))], 2, rng()).tolist() == [[3.0]]


def test_a_centre_moves_to_the_mean_of_what_is_reported_and_else_stays():
    centres = torch.tensor([[1.0], [7.0]])
    moved = fk.step(centres, [message(([2.0], 5), ([0.0], 0)), message(([4.0], 15), ([0.0], 0))])
    assert moved.tolist() == [[3.5], [7.0]]


@pytest.mark.parametrize(
    ("moves", "messages"),
    [([1.0] * 99, 10), ([0.02, 0.015, 0.0099, 1.0], 3), ([0.0, 1.0], 1)],
)
def test_clients_are_asked_until_the_centres_hardly_move(monkeypatch, moves, messages):
    asked = iter(moves)
    monkeypatch.setattr(fk, "step", lambda before, messages: before * (1 + next(asked)))
    start = fk.federated_kmeans([100 * blobs(2, 10)], 2, rngs(1), rng())
    assert len(list(asked)) == len(moves) - messages
    assert start.shape == (2, 8)


def test_a_centre_at_the_origin_stands_still(monkeypatch):
    asked = []
    monkeypatch.setattr(fk, "step", lambda before, messages: asked.append(1) or before)
    fk.federated_kmeans([torch.ones(3, 4)], 2, rngs(1), rng())
    assert len(asked) == 1
