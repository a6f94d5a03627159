"""IFAL against its formulas, with votes counted one by one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from fedactive.query import make_strategy
from fedactive.query.contract import make_pool
from fedactive.query.strategies import ifal
from fedactive.query.strategies.ifal import above_otsu, neighbours, uncertainties

AS_PUBLISHED = ifal.NEIGHBOURS


@pytest.fixture(autouse=True)
def few_neighbours(monkeypatch):
    monkeypatch.setattr(ifal, "NEIGHBOURS", 7)
    monkeypatch.setattr(ifal, "BLOCK", 500)  # several parts


def naive_votes(pool, model, labels):
    unlabelled, labelled = pool.unlabelled(model).embeddings, pool.labelled(model).embeddings
    n, counts = len(pool), torch.ones(len(pool), pool.classes, dtype=torch.float64)
    for voter, x in enumerate(torch.cat([unlabelled, labelled])):
        cosine = F.cosine_similarity(x[None].double(), unlabelled.double()).tolist()
        others = sorted((u for u in range(n) if u != voter), key=lambda u: -cosine[u])[:7]
        for u in others:
            counts[u, labels[voter]] += 1
    return counts / counts.sum(1, keepdim=True)


def test_a_sample_votes_for_250_others(monkeypatch):
    monkeypatch.setattr(ifal, "NEIGHBOURS", AS_PUBLISHED)
    rng = torch.Generator().manual_seed(0)
    voters = neighbours(*(torch.randn(n, 3, generator=rng) for n in (260, 2)))
    assert {part.shape[1] for part in voters} == {250}


def naive_w(p, q):
    pairs = zip(p.tolist(), q.tolist(), strict=True)
    return torch.tensor(
        [sum(abs(a - b) for a, b in zip(sorted(x), sorted(y), strict=True)) / len(x) for x, y in pairs]
    )


def naive(pool):
    guesses = {model: pool.unlabelled(model).logits.argmax(1).tolist() for model in ("global", "local_last")}
    labels = {model: [*guess, *pool.labels.tolist()] for model, guess in guesses.items()}
    r_g, r_l, r_d = (naive_votes(pool, m, labels["global"]) for m in ("global", "local_last", "distilled"))
    d1, d2 = naive_w(r_l, r_d), naive_w(r_g, r_d)
    u1 = torch.maximum(d1 / (d2 + 1e-5), d2 / (d1 + 1e-5)) * (d1 + d2)
    own = naive_votes(pool, "local_last", labels["local_last"])
    return u1, naive_w(own, pool.unlabelled("local_last").probabilities)


@pytest.mark.parametrize(("n", "labelled"), [(60, 9), (60, 0), (5, 4), (2, 1)])
def test_uncertainties_are_those_of_the_formula(n, labelled):
    pool = make_pool(n, 4, labelled=labelled, seed=n)
    for found, expected in zip(uncertainties(pool), naive(pool), strict=True):
        torch.testing.assert_close(found.double(), expected.double(), rtol=1e-3, atol=1e-5)


def spread(values, least):
    """How far apart the groups below `least`, and from it on, are: as Otsu weighs it."""
    low, high = ([v for v in values if (v >= least) == up] for up in (False, True))
    return len(low) * len(high) * (sum(high) / len(high) - sum(low) / len(low)) ** 2


@given(st.lists(st.integers(0, 6), min_size=2, max_size=9).filter(lambda values: len(set(values)) > 1))
def test_otsus_threshold_parts_values_best(values):
    above = above_otsu(torch.tensor(values, dtype=torch.float32)).tolist()
    assert above == sorted(above)
    assert spread(values, min(values[i] for i in above)) == pytest.approx(
        max(spread(values, v) for v in set(values) - {min(values)})
    )


def test_equal_values_have_no_threshold():
    assert above_otsu(torch.ones(5)).tolist() == above_otsu(torch.ones(1)).tolist() == []
    assert above_otsu(torch.full((7,), 0.1)).tolist() == []
    assert above_otsu(torch.tensor([1.0, 9.0, 1.0])).tolist() == [1]


@pytest.mark.parametrize("seed", range(6))
def test_it_chooses_from_what_lies_above_and_else_the_top(seed):
    pool = make_pool(80, 4, labelled=6, seed=seed)
    first, second = uncertainties(pool)
    above, wider = (set(above_otsu(u).tolist()) for u in (first * second, first))
    strategy = make_strategy("ifal", "both")
    few = strategy.select(pool, len(above), torch.Generator())
    assert set(few.indices.tolist()) == above
    torch.testing.assert_close(few.scores, (first * second)[few.indices])
    if len(above) < len(wider):
        some = strategy.select(pool, len(wider), torch.Generator())
        assert set(some.indices.tolist()) == wider
    count = max(len(above), len(wider)) + 1
    many = strategy.select(pool, count, torch.Generator())
    assert many.indices.tolist() == (first * second).argsort(descending=True)[:count].tolist()


def test_of_each_cluster_the_sample_nearest_to_the_mean_is_chosen(monkeypatch):
    """Three tight groups in the client's space, each with a sample in its middle."""
    monkeypatch.setattr(ifal, "above_otsu", lambda values: torch.arange(15))
    pool = make_pool(30, 3, dimensions=3)
    ways = torch.eye(3).repeat_interleave(5, 0)
    off = torch.tensor([[0.0], [1], [-1], [2], [-2]]).repeat(3, 1) * torch.roll(ways, 1, 1) * 0.1
    original = pool.unlabelled

    def grouped(model):
        outputs = original(model)
        z = outputs.embeddings.clone()
        if model == "local_last":
            z = torch.zeros(30, 3)
            z[:15] = ways + off
        return type(outputs)(outputs.logits, z)

    pool.unlabelled = grouped
    chosen = make_strategy("ifal", "both").select(pool, 3, torch.Generator().manual_seed(2))
    assert sorted(chosen.indices.tolist()) == [0, 5, 10]
