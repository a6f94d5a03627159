"""The three plain ways to use both models, against their definitions."""

import pytest
import torch

from fedactive.query.contract import make_pool
from fedactive.query.kernels import gradient_seeding
from fedactive.query.strategies.badge import Badge
from fedactive.query.strategies.ensemble_logit import EnsembleLogit
from fedactive.query.strategies.ensemble_rank import EnsembleRank
from fedactive.query.strategies.entropy import Entropy
from fedactive.query.strategies.finetune import FineTune


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def entropy(p):
    return -(p * p.log()).sum(1)


def test_logit_with_entropy_scores_the_mean_of_the_two_softmax_outputs():
    pool = make_pool(50, 4)
    p = (pool.unlabelled("global").probabilities + pool.unlabelled("local").probabilities) / 2
    selection = EnsembleLogit().select(pool, 10, rng())
    assert selection.indices.tolist() == entropy(p).argsort(descending=True)[:10].tolist()
    assert torch.allclose(selection.scores, entropy(p)[selection.indices])


def test_logit_with_badge_seeds_on_the_mean_of_the_two_gradient_embeddings():
    pool = make_pool(60, 3)
    both = [pool.unlabelled("global"), pool.unlabelled("local")]
    g = sum(torch.einsum("nd,nc->ndc", o.embeddings, o.residual).flatten(1) / 2 for o in both)
    # A rank-one embedding with q = 1 is the vector itself: the same seeding on the explicit matrix.
    expected, distances = gradient_seeding(g[None], torch.ones(1, 60, 1), 12, rng(3))
    selection = EnsembleLogit("badge").select(pool, 12, rng(3))
    assert selection.indices.tolist() == expected.tolist()
    assert torch.allclose(selection.scores, distances, rtol=1e-4, atol=1e-5)


def test_rank_prefers_what_both_models_chose():
    pool = make_pool(40, 3)
    lists = [Entropy(model).select(pool, 8, rng()).indices.tolist() for model in ("global", "local")]
    weight = dict.fromkeys(range(40), 0.0)
    for ranked in lists:
        for rank, i in enumerate(ranked, start=1):
            weight[i] += 1 / (20 + rank)
    expected = sorted(weight, key=lambda i: -weight[i])[:8]
    selection = EnsembleRank().select(pool, 8, rng())
    assert sorted(selection.indices.tolist()) == sorted(expected)
    assert selection.scores.tolist() == pytest.approx([weight[i] for i in selection.indices.tolist()])


def test_rank_with_badge_takes_only_from_the_two_queries():
    pool = make_pool(80, 3)
    generator = rng(1)
    union = set(Badge("global").select(pool, 10, generator).indices.tolist())
    union |= set(Badge("local").select(pool, 10, generator).indices.tolist())
    assert set(EnsembleRank("badge").select(pool, 10, rng(1)).indices.tolist()) <= union


@pytest.mark.parametrize("strategy", [EnsembleLogit(), EnsembleRank(), FineTune()])
def test_clients_with_small_pools_take_nothing_from_others(strategy):
    pools = [make_pool(n, 3, seed=n) for n in (40, 3)]
    together = strategy.select_all(pools, 8, [rng(0), rng(1)])
    for k, pool in enumerate(pools):
        assert together[k].indices.tolist() == strategy.select(pool, 8, rng(k)).indices.tolist()


def test_ensembles_need_both_models():
    assert EnsembleLogit().needs == EnsembleRank().needs == {"global", "local"}


@pytest.mark.parametrize(("base", "strategy"), [("entropy", Entropy), ("badge", Badge)])
def test_finetune_is_the_base_strategy_on_the_finetuned_model(base, strategy):
    pool = make_pool(50, 4)
    chosen = FineTune(base).select(pool, 9, rng(2)).indices.tolist()
    assert chosen == strategy("finetuned").select(pool, 9, rng(2)).indices.tolist()
    assert FineTune(base).needs == {"finetuned"}
