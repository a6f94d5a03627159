from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.analysis.diversity import transport_cost
from fedactive.query.contract import make_pool
from fedactive.query.strategies.logo import LoGo, best_of_each
from fedactive.query.strategy import ScoringStrategy, parameter, register


def test_worked_example(make_pool):
    """Two far groups in the local-only model's space; within each the global model is least sure of one."""
    z = torch.tensor([[10.0, 0], [11, 0], [10, 1], [0, 10], [0, 11], [1, 10]])
    logits = torch.tensor([[3.0, 0], [0, 0], [2, 0], [5, 0], [4, 0], [0.1, 0]])
    pool = make_pool(6, 2, local_embeddings=z, local_logits=torch.zeros(6, 2), global_logits=logits)
    selection = LoGo().select(pool, 2, torch.Generator().manual_seed(0))
    assert selection.indices.tolist() == [1, 5]  # the highest entropy of each group
    assert len(set(selection.diagnostics["cluster"][selection.indices].tolist())) == 2


def test_the_micro_step_may_have_options_of_its_own(make_pool):
    @register
    @dataclass(frozen=True)
    class Tempered(ScoringStrategy):
        name, summary, paper = "tempered", "", ""
        sign: float = parameter(-1.0, "which end", (-1.0, 1.0))

        def score(self, outputs):
            return self.sign * outputs.entropy

    logits = torch.tensor([[3.0, 0], [0, 0], [2, 0]])
    pool = make_pool(3, 2, local_embeddings=torch.ones(3, 4), global_logits=logits)
    selection = LoGo(micro="tempered").select(pool, 1, torch.Generator().manual_seed(0))
    assert selection.indices.tolist() == [0]  # the lowest entropy


def test_the_gradient_scales_the_embedding_by_uncertainty(make_pool):
    pool = make_pool(
        1, 2, local_embeddings=torch.tensor([[2.0, 4.0]]), local_logits=torch.tensor([[0.0, 0.0]])
    )
    assert pool.unlabelled("local").hallucinated_gradient.tolist() == [[1.0, 2.0]]  # z · (1 - 0.5)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 60), st.integers(0, 100))
def test_first_picks_come_first_and_are_never_lost(clusters, count, seed):
    cluster = torch.tensor(clusters)
    score = torch.rand(len(clusters), generator=torch.Generator().manual_seed(seed))
    chosen = best_of_each(cluster, score, count, torch.Generator().manual_seed(seed)).tolist()
    assert len(chosen) == min(count, len(clusters))
    best = {
        max((i for i in range(len(clusters)) if clusters[i] == c), key=score.__getitem__)
        for c in set(clusters)
    }
    if count >= len(best):
        assert set(chosen[: len(best)]) == best
    taken = [clusters[i] for i in chosen]
    # One cluster after another: nobody has a next pick before all who still have samples had theirs.
    for c in set(clusters):
        for d in set(clusters):
            if taken.count(c) < clusters.count(c):
                assert taken.count(d) <= taken.count(c) + 1


def test_both_models_are_needed():
    assert LoGo().needs == {"global", "local"}


def test_one_pick_per_cluster(make_pool):
    pool = make_pool(200, 5, dimensions=8)
    selection = LoGo().select(pool, 20, torch.Generator().manual_seed(1))
    assert len(set(selection.diagnostics["cluster"][selection.indices].tolist())) == 20


def pool_with_clusters(seed, n=80, budget=12):
    pool = make_pool(n, 4, dimensions=5, seed=seed)
    selection = LoGo().select(pool, budget, torch.Generator().manual_seed(seed))
    points = pool.unlabelled("local").hallucinated_gradient.numpy()
    return points, selection.diagnostics["cluster"].numpy(), selection.indices.numpy()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_remark_1_every_query_lies_in_its_own_cluster_and_is_its_most_uncertain(seed):
    pool = make_pool(80, 4, dimensions=5, seed=seed)
    selection = LoGo().select(pool, 12, torch.Generator().manual_seed(seed))
    cluster, entropy = selection.diagnostics["cluster"], pool.unlabelled("global").entropy
    assert sorted(cluster[selection.indices].tolist()) == list(range(12))
    for i in selection.indices.tolist():
        assert entropy[i] == entropy[cluster == cluster[i]].max()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_remark_2_what_is_provable(seed):
    """One query per cluster: each serves its own centroid, and no other mapping is cheaper.

    Two queries from one cluster: some centroid is served from outside, which costs at least what every query
    pays to its own centroid, the nearest one.
    """
    points, cluster, chosen = pool_with_clusters(seed)
    near = 1 + 1e-2  # k-means stops a little before every point is with its nearest mean
    M, own = transport_cost(points, cluster, chosen)
    assert own / near <= M <= own * (1 + 1e-9)
    doubled = chosen.copy()
    doubled[0] = next(i for i in range(len(points)) if cluster[i] != cluster[chosen[0]] and i not in chosen)
    M, own = transport_cost(points, cluster, doubled)
    assert own / near <= M
    best = min(((points[i] - points[cluster == cluster[i]].mean(0)) ** 2).sum() for i in range(len(points)))
    assert len(chosen) * best / near <= M
