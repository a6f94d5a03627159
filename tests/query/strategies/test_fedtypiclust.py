import torch

from fedactive.query import make_strategy
from fedactive.query.strategies.fedtypiclust import Offer, deal


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def offer(size, labels, distances):
    return Offer(torch.tensor(size), torch.tensor(labels), distances)


def test_the_nearest_sample_of_the_cluster_with_fewest_labels_first():
    one = offer([20, 30, 5], [1, 0, 0], [[0.1, 0.2], [0.5], [0.01]])
    two = offer([20, 30, 0], [1, 0, 0], [[0.15], [0.4, 0.45], []])
    # Cluster 1 has no label, cluster 0 has two, cluster 2 is small.
    assert deal([one, two], [1, 1]) == [[(0, 0)], [(1, 0)]]
    assert deal([one, two], [2, 2]) == [[(0, 0), (2, 0)], [(1, 0), (1, 1)]]


def test_of_clusters_with_equal_labels_the_larger_comes_first():
    alone = offer([20, 30, 25], [0, 0, 0], [[0.1], [0.2], [0.3]])
    assert deal([alone], [3]) == [[(1, 0), (2, 0), (0, 0)]]


def test_a_client_without_budget_is_passed_over():
    near, far = offer([20], [0], [[0.1, 0.2, 0.3]]), offer([20], [0], [[0.8, 0.9]])
    assert deal([near, far], [1, 2]) == [[(0, 0)], [(0, 0), (0, 1)]]


def test_clients_do_not_label_the_same_thing_twice(make_pool):
    """Both see the same six groups, and have three labels each: together they label every group once."""
    x = torch.eye(6).repeat_interleave(20, 0) + 0.05 * torch.randn(120, 6, generator=rng(1))
    pools = [make_pool(120, 3, labelled=0, dimensions=6, global_embeddings=x) for _ in range(2)]
    together = make_strategy("fedtypiclust", "global").select_all(pools, 3, [rng(1), rng(2)])
    assert sorted(i // 20 for chosen in together for i in chosen.indices.tolist()) == [0, 1, 2, 3, 4, 5]
