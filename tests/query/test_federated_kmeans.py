"""Federated k-means: the clusters of all samples, from messages that give no sample away."""

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
