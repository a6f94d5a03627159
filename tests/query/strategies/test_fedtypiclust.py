import pytest
import torch
from torch.nn import functional as F

from fedactive.query import make_strategy
from fedactive.query.strategies import fedtypiclust
from fedactive.query.strategies.fedtypiclust import Offer, deal, make_offer


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


def test_an_offer_is_what_a_client_has_in_each_cluster():
    unlabelled, labelled = (torch.randn(n, 3, generator=rng(n)) for n in (30, 8))
    centres = torch.cat([torch.randn(3, 3, generator=rng(1)), torch.full((1, 3), 9.0)])
    order, made = make_offer(unlabelled, labelled, centres, rng())
    far, near = torch.cdist(unlabelled, centres), torch.cdist(labelled, centres).argmin(1).tolist()
    for c in range(4):
        own = sorted((far[i, c].item(), i) for i in range(30) if far[i].argmin() == c)
        assert order[c].tolist() == [i for _, i in own]
        assert made.distances[c] == pytest.approx([distance for distance, _ in own], abs=1e-5)
        size = len(own) + near.count(c)
        assert made.size[c] == (size if size >= 5 else 0)
        assert made.labels[c] == near.count(c)


@pytest.mark.parametrize("most", [500, 9])
def test_as_many_clusters_as_labels_and_budgets_of_all_clients(monkeypatch, make_pool, most):
    asked, centres = [], torch.eye(4)
    monkeypatch.setattr(fedtypiclust, "MOST_CLUSTERS", most)
    monkeypatch.setattr(fedtypiclust, "federated_kmeans", lambda *args: asked.append(args) or centres)
    pools = [make_pool(n, 3, labelled=k) for n, k in ((30, 4), (3, 0))]
    chosen = make_strategy("fedtypiclust", "global").select_all(pools, 5, [rng(1), rng(2)])
    ((points, clusters, _, _),) = asked
    assert clusters == min(5 + 3 + 4, most)
    assert [len(x) for x in points] == [34, 3]
    for x, pool, selection in zip(points, pools, chosen, strict=True):
        torch.testing.assert_close(x.norm(dim=1), torch.ones(len(x)))
        far = torch.cdist(x[: len(pool)], centres).amin(1)
        torch.testing.assert_close(selection.scores, -far[selection.indices], atol=1e-4, rtol=0)
    with_labels = F.normalize(
        torch.cat([pools[0].unlabelled("global").embeddings, pools[0].labelled("global").embeddings])
    )
    torch.testing.assert_close(points[0], with_labels)
