"""FEAL against its formulas: torch's own Dirichlet, and a walk written from the text."""

import pytest
import torch
from torch.distributions import Categorical, Dirichlet

from fedactive.query import make_strategy
from fedactive.query.strategies import feal
from fedactive.query.strategies.feal import (
    aleatoric,
    dirichlet_entropy,
    near_neighbours,
    relaxed,
    uncertainty,
)


def evidence(logits):
    return logits.double().clamp_min(0) + 1


def test_the_entropy_is_that_of_the_dirichlet_distribution():
    a = evidence(3 * torch.randn(40, 5, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(dirichlet_entropy(a), Dirichlet(a).entropy())


def test_aleatoric_uncertainty_is_the_mean_entropy_of_drawn_categories():
    a = torch.tensor([[1.0, 4.0, 2.5]], dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = Dirichlet(a[0]).sample((200_000,))
    assert aleatoric(a).item() == pytest.approx(Categorical(probs=drawn).entropy().mean().item(), abs=3e-3)


def test_the_score_is_the_product_of_both():
    rng = torch.Generator().manual_seed(3)
    g, own = (3 * torch.randn(20, 4, generator=rng) for _ in range(2))
    e = [Dirichlet(a).entropy().item() for a in evidence(g)]
    scaled = [(value - min(e)) / (max(e) - min(e)) for value in e]
    u = (aleatoric(evidence(g)) + aleatoric(evidence(own))).tolist()
    assert uncertainty(g, own).tolist() == pytest.approx([a * b for a, b in zip(scaled, u, strict=True)])


def naive_walk(order, x, count):
    """The text, word for word."""
    cosine = torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(x).T
    taken, rejected = [], []
    for i in order:
        near = [j for j in range(len(x)) if j != i and cosine[i, j] > 0.85]
        near = sorted(near, key=lambda j: -cosine[i, j])[:5]
        (taken if len(near) < 5 or not set(near) & set(taken) else rejected).append(i)
    return (taken + rejected)[:count]


@pytest.mark.parametrize("count", [1, 10, 40, 90])
def test_near_neighbours_of_what_is_taken_are_left_out(count, monkeypatch):
    monkeypatch.setattr(feal, "BLOCK", 1000)  # several parts
    rng = torch.Generator().manual_seed(5)
    centres = torch.randn(9, 6, generator=rng)
    x = centres.repeat(10, 1) + 0.2 * torch.randn(90, 6, generator=rng)
    order = torch.randperm(90, generator=rng).tolist()
    found = relaxed(order, near_neighbours(x).tolist(), count)
    assert found == naive_walk(order, x, count)
    if count == 40:
        assert found != order[:40]


def test_it_walks_down_the_scores(make_pool):
    pool = make_pool(60, 3, dimensions=3)
    g, own = (pool.unlabelled(model) for model in ("global", "local_last"))
    order = uncertainty(g.logits, own.logits).argsort(descending=True).tolist()
    chosen = make_strategy("feal", "both").select(pool, 12, torch.Generator())
    assert chosen.indices.tolist() == naive_walk(order, own.embeddings, 12)
