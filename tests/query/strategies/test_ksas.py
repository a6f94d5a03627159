"""KSAS against its formula, sample by sample."""

import math

import pytest
import torch

from fedactive.query import make_strategy
from fedactive.query.strategies.ksas import discrepancy


def naive(g, own, counts):
    """½[KL(p_g ‖ p_l) + KL(p_l ‖ p_g)], with e^z·n normalised over the classes with labels."""
    scores = []
    for zg, zl in zip(g.tolist(), own.tolist(), strict=True):
        p, q = ([math.exp(z) * n for z, n in zip(logits, counts, strict=True) if n] for logits in (zg, zl))
        p, q = ([value / sum(values) for value in values] for values in (p, q))
        there = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        back = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
        scores.append((there + back) / 2)
    return scores


@pytest.mark.parametrize("counts", [[3, 1, 7, 2], [3, 0, 7, 0], [0, 0, 5, 0], [1, 1, 1, 1]])
def test_the_score_is_that_of_the_formula(counts):
    rng = torch.Generator().manual_seed(1)
    g, own = (2 * torch.randn(30, 4, generator=rng) for _ in range(2))
    found = discrepancy(g, own, torch.tensor(counts)).tolist()
    assert found == pytest.approx(naive(g, own, counts), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("labelled", [0, 6])
def test_it_takes_the_highest_scores(make_pool, labelled):
    pool = make_pool(50, 3, labelled=labelled)
    g, own = (pool.unlabelled(model).logits for model in ("global", "local_last"))
    counts = [pool.labels.tolist().count(c) if labelled else 1 for c in range(3)]
    scores = naive(g, own, counts)
    best = sorted(range(50), key=lambda i: -scores[i])[:7]
    chosen = make_strategy("ksas", "both").select(pool, 7, torch.Generator())
    assert chosen.indices.tolist() == best
    assert chosen.scores.tolist() == pytest.approx([scores[i] for i in best], rel=1e-4)


def test_disagreement_about_a_class_without_labels_does_not_count():
    g, own = torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[0.0, 0.0, -9.0]])
    assert discrepancy(g, own, torch.tensor([4, 1, 0])).item() == 0
    assert discrepancy(g, own, torch.tensor([4, 1, 1])).item() > 1
