import pytest
import torch

from fedactive.query import make_strategy
from fedactive.query.strategies import maxherding
from fedactive.query.strategies.maxherding import herd


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_is_that_of_the_formula(monkeypatch, seed):
    monkeypatch.setattr(maxherding, "AT_A_TIME", 3)
    similarity = torch.rand(50, 60, generator=rng(seed), dtype=torch.float64)
    best = 0.5 * torch.rand(60, generator=rng(seed + 9), dtype=torch.float64)
    chosen, gains = herd(similarity, best.clone(), 50)
    left = list(range(50))
    for i, gain in zip(chosen.tolist(), gains.tolist(), strict=True):
        added = {
            j: sum(max(0.0, float(k - b)) for k, b in zip(similarity[j], best, strict=True)) for j in left
        }
        assert gain == pytest.approx(max(added.values()))
        assert added[i] == pytest.approx(max(added.values()))
        best = torch.maximum(best, similarity[i])
        left.remove(i)


def test_the_middle_of_the_largest_blob_without_a_label_comes_first(make_pool):
    x = torch.eye(3).repeat_interleave(torch.tensor([30, 20, 10]), 0)
    pool = make_pool(60, 3, labelled=1, dimensions=3, global_embeddings=x)
    labelled = pool.labelled("global")
    labelled.embeddings.copy_(torch.tensor([[5.0, 0, 0]]))
    pool.labelled = lambda model: labelled
    chosen = make_strategy("maxherding", "global", "sigma=0.3").select(pool, 2, rng())
    assert 30 <= chosen.indices[0] < 50 <= chosen.indices[1]
    assert chosen.scores.tolist() == pytest.approx([20, 10], abs=1e-3)
