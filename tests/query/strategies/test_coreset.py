"""Coreset against brute force."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedactive.query.contract import make_pool
from fedactive.query.strategies.coreset import Coreset


def brute_force(points, labelled, count):
    """Each time the point whose nearest centre is farthest, from all distances computed anew."""
    centres, chosen = list(labelled), []
    for _ in range(count):
        nearest = [min(float((p - c).pow(2).sum()) for c in centres) for p in points]
        best = max((i for i in range(len(points)) if i not in chosen), key=nearest.__getitem__)
        chosen.append(best)
        centres.append(points[best])
    return chosen


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 100))
def test_equal_to_brute_force(n, labelled, seed):
    pool = make_pool(n, 3, labelled=labelled, seed=seed)
    points, anchors = pool.unlabelled("local").embeddings.double(), pool.labelled("local").embeddings.double()
    selection = Coreset("local").select(pool, 6, torch.Generator().manual_seed(seed))
    assert selection.indices.tolist() == brute_force(points, anchors, min(6, n))


def test_worked_example():
    """On a line, labelled at the origin: the farthest end first, then the other end, then the middle."""
    pool = make_pool(4, 2, labelled=1, dimensions=1, embeddings=torch.tensor([[1.0], [10.0], [5.0], [-4.0]]))
    pool.labelled("global").embeddings.zero_()
    selection = Coreset("global").select(pool, 4, torch.Generator())
    assert selection.indices.tolist() == [1, 2, 3, 0]  # distances 10, then 5 (to 0 and 10), then 4, then 1
    assert selection.scores.tolist() == [100.0, 25.0, 16.0, 1.0]
