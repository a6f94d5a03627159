import torch

from fedactive.query import make_strategy
from fedactive.query.strategies.typiclust import in_turn, typicality


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_typicality_by_hand():
    """On a line at 0, 1, 3, 7 in one cluster: two of four are neighbours. The lone one has none."""
    x = torch.tensor([[0.0], [1.0], [3.0], [7.0], [50.0]])
    cluster = torch.tensor([0, 0, 0, 0, 1])
    means = torch.tensor([(1 + 3) / 2, (1 + 2) / 2, (2 + 3) / 2, (4 + 6) / 2])
    found = typicality(x, cluster, 2)
    assert torch.allclose(found[:4], 1 / means, rtol=1e-4)
    assert found[4] > 1e4


def test_at_most_twenty_neighbours_count():
    x = torch.cat([torch.zeros(21, 1), torch.full((29, 1), 100.0)])
    found = typicality(x, torch.zeros(50, dtype=torch.long), 1)
    assert (found > 1e4).all()  # each has 20 that coincide with it


def test_clusters_are_served_by_fewest_labels_then_size_and_small_ones_last():
    generator = rng(3)
    cluster = torch.randint(0, 9, (120,), generator=generator)
    cluster[:3] = 9  # a small one
    score = torch.rand(100, generator=generator)
    found = in_turn(cluster, score, 10, rng()).tolist()
    size = [(cluster == c).sum().item() for c in range(10)]
    labels = [(cluster[100:] == c).sum().item() for c in range(10)]
    left = {c: sorted((i for i in range(100) if cluster[i] == c), key=lambda i: -score[i]) for c in range(10)}
    expected = []
    for small in (False, True):
        clusters = [c for c in range(10) if (size[c] <= 5) == small]
        while any(left[c] for c in clusters):
            # The order among equals does not matter.
            turn = sorted((c for c in clusters if left[c]), key=lambda c: (labels[c], -size[c]))
            expected += [left[c].pop(0) for c in turn]
    key = [(labels[cluster[i]], size[cluster[i]], score[i].item()) for i in expected]
    assert [(labels[cluster[i]], size[cluster[i]], score[i].item()) for i in found] == key
    assert sorted(found) == list(range(100))


def test_one_of_each_blob_that_has_no_label(make_pool):
    blobs = torch.eye(6).repeat_interleave(20, 0)
    x = blobs + 0.05 * torch.randn(blobs.shape, generator=rng(1))
    pool = make_pool(120, 3, labelled=2, dimensions=6, global_embeddings=x)
    labelled = pool.labelled("global")
    labelled.embeddings.copy_(torch.eye(6)[:2])
    pool.labelled = lambda model: labelled
    chosen = make_strategy("typiclust", "global").select(pool, 4, rng())
    assert sorted(i // 20 for i in chosen.indices.tolist()) == [2, 3, 4, 5]
