"""The contract that every registered strategy keeps, whoever wrote it."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import make_pool
from fedactive.query import STRATEGIES, make_strategy

EVERY = [(name, selector) for name, strategy in sorted(STRATEGIES.items()) for selector in strategy.selectors]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def check(strategy, pool, budget, seed=0):
    selection = strategy.select(pool, budget, rng(seed))
    chosen = selection.indices.tolist()
    assert len(chosen) == min(budget, len(pool))
    assert len(set(chosen)) == len(chosen)
    assert all(0 <= i < len(pool) for i in chosen)
    assert len(selection.scores) == len(chosen)
    assert torch.isfinite(selection.scores).all()
    return chosen


@pytest.mark.parametrize(("name", "selector"), EVERY)
class TestContract:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(
        n=st.integers(1, 300),
        budget=st.integers(0, 40) | st.integers(200, 400),
        classes=st.integers(1, 12),
        labelled=st.integers(0, 20),
        seed=st.integers(0, 5),
    )
    def test_exact_budget_unique_and_repeatable(self, name, selector, n, budget, classes, labelled, seed):
        strategy = make_strategy(name, selector)
        pool = make_pool(n, classes, labelled=labelled, seed=seed)
        assert check(strategy, pool, budget, seed) == check(strategy, pool, budget, seed)

    def test_duplicate_points(self, name, selector):
        pool = make_pool(30, 3, local_embeddings=torch.ones(30, 4), global_embeddings=torch.ones(30, 4))
        check(make_strategy(name, selector), pool, 10)

    def test_ties_are_broken_by_the_seed(self, name, selector):
        same = {"global_logits": torch.zeros(40, 3), "local_logits": torch.zeros(40, 3)}
        same |= {"global_embeddings": torch.ones(40, 4), "local_embeddings": torch.ones(40, 4)}
        pool = make_pool(40, 3, **same)
        strategy = make_strategy(name, selector)
        assert len({tuple(check(strategy, pool, 5, seed)) for seed in range(5)}) > 1

    @pytest.mark.parametrize("scale", [1e4, 1e30])
    def test_certain_predictions(self, name, selector, scale):
        certain = torch.eye(4).repeat(8, 1) * scale  # p is exactly 0 and 1
        check(make_strategy(name, selector), make_pool(32, 4, global_logits=certain, local_logits=certain), 6)

    def test_inputs_are_untouched(self, name, selector):
        pool = make_pool(50, 5)
        before = {
            m: (pool.unlabelled(m).logits.clone(), pool.unlabelled(m).embeddings.clone())
            for m in ("global", "local")
        }
        check(make_strategy(name, selector), pool, 12)
        for model, (logits, z) in before.items():
            assert torch.equal(pool.unlabelled(model).logits, logits)
            assert torch.equal(pool.unlabelled(model).embeddings, z)

    def test_only_declared_models_are_asked(self, name, selector):
        strategy = make_strategy(name, selector)
        pool = make_pool(20, 3)
        asked = set()
        for part in ("unlabelled", "labelled"):
            original = getattr(pool, part)
            setattr(pool, part, lambda model, original=original: (asked.add(model), original(model))[1])
        check(strategy, pool, 5)
        assert asked <= strategy.needs
