"""Margin, least confidence and random on numbers one can check."""

import pytest
import torch

from fedactive.query.strategies.least_confidence import LeastConfidence
from fedactive.query.strategies.margin import Margin
from fedactive.query.strategies.random import Random


def logits(*rows):
    return torch.tensor(rows).log()


PROBABILITIES = ([0.5, 0.4, 0.1], [0.45, 0.1, 0.45], [0.4, 0.35, 0.25], [0.9, 0.05, 0.05])


def test_margin(make_pool):
    pool = make_pool(4, 3, global_logits=logits(*PROBABILITIES))
    selection = Margin("global").select(pool, 3, torch.Generator())
    assert selection.indices.tolist() == [1, 2, 0]
    assert selection.scores.tolist() == pytest.approx([0, -0.05, -0.1], abs=1e-6)


def test_margins_of_two_classes_and_of_one(make_pool):
    pool = make_pool(2, 2, global_logits=logits([0.5, 0.5], [0.2, 0.8]))
    assert Margin("global").select(pool, 2, torch.Generator()).scores.tolist() == pytest.approx([0, -0.6])
    pool = make_pool(2, 1, global_logits=logits([1.0], [1.0]))
    assert Margin("global").select(pool, 2, torch.Generator()).scores.tolist() == [-1, -1]


def test_random_needs_no_model_and_draws_evenly(make_pool):
    pool, rng = make_pool(4, 3), torch.Generator().manual_seed(0)
    selections = [Random().select(pool, 3, rng) for _ in range(200)]
    assert Random().needs == set()
    assert all(len(set(selection.indices.tolist())) == 3 for selection in selections)
    assert all(selection.scores.tolist() == [0, 0, 0] for selection in selections)
    firsts = torch.stack([selection.indices[0] for selection in selections])
    assert torch.bincount(firsts).tolist() == pytest.approx([50] * 4, abs=20)


def test_least_confidence(make_pool):
    pool = make_pool(4, 3, local_logits=logits(*PROBABILITIES))
    selection = LeastConfidence("local").select(pool, 2, torch.Generator())
    assert selection.indices.tolist() == [2, 1]
    assert selection.scores.tolist() == pytest.approx([0.6, 0.55])
