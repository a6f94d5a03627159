"""Margin and least confidence on numbers one can check."""

import pytest
import torch

from fedactive.query.strategies.least_confidence import LeastConfidence
from fedactive.query.strategies.margin import Margin


def logits(*rows):
    return torch.tensor(rows).log()


PROBABILITIES = ([0.5, 0.4, 0.1], [0.45, 0.1, 0.45], [0.4, 0.35, 0.25], [0.9, 0.05, 0.05])


def test_margin(make_pool):
    pool = make_pool(4, 3, global_logits=logits(*PROBABILITIES))
    selection = Margin("global").select(pool, 3, torch.Generator())
    assert selection.indices.tolist() == [1, 2, 0]
    assert selection.scores.tolist() == pytest.approx([0, -0.05, -0.1], abs=1e-6)


def test_least_confidence(make_pool):
    pool = make_pool(4, 3, local_logits=logits(*PROBABILITIES))
    selection = LeastConfidence("local").select(pool, 2, torch.Generator())
    assert selection.indices.tolist() == [2, 1]
    assert selection.scores.tolist() == pytest.approx([0.6, 0.55])
