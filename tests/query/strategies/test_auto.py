import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

from fedactive.query import Outputs, make_strategy
from fedactive.query.alike import directions, own_part
from fedactive.query.strategies import auto
from fedactive.query.strategies.auto import goes_by_margin, leave_one_out, mann_whitney
from fedactive.query.strategies.maxherding import MaxHerding
from fedactive.query.strategy import summary_of
from support.blobs import APART, AUTO, EQUAL, blobs, clients_of, points, pool_of


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_leave_one_out_is_what_leaving_one_out_gives():
    x, labels = torch.randn(15, 4, generator=rng()), torch.randint(3, (15,), generator=rng(1))
    margin, wrong = leave_one_out(x, labels, 3)
    for i in range(15):
        others = torch.arange(15) != i
        z, y = x[others].double(), torch.eye(3, dtype=torch.float64)[labels[others]]
        weight = torch.linalg.solve(z.T @ z + torch.eye(4), z.T @ y)  # λ = 1
        scores = x[i].double() @ weight
        best = scores.topk(2)
        assert margin[i].item() == pytest.approx(float(best.values[0] - best.values[1]))
        assert bool(wrong[i]) == (int(best.indices[0]) != labels[i])


def test_of_one_class_nothing_is_wrong_or_sure():
    margin, wrong = leave_one_out(torch.randn(5, 4, generator=rng()), torch.zeros(5, dtype=torch.long), 1)
    assert margin.tolist() == [0.0] * 5
    assert wrong.tolist() == [False] * 5


def test_the_test_is_scipys():
    low, high = (torch.randn(n, generator=rng(n)).round(decimals=0) for n in (9, 14))  # with ties
    high += 1
    u = stats.mannwhitneyu(high.numpy(), low.numpy()).statistic
    z = (u - 9 * 14 / 2) / np.sqrt(9 * 14 * 24 / 12)
    assert mann_whitney(low, high) == pytest.approx(z)
    assert mann_whitney(low[:0], high) == mann_whitney(low, high[:0]) == 0.0


def client(make_pool, labelled, apart):
    """Two classes on a line that overlap unless they are far apart; predictions are sure or unsure by turns."""
    y = torch.arange(labelled) % 2
    z = torch.stack([apart * (2.0 * y - 1) + torch.randn(labelled, generator=rng()), torch.ones(labelled)], 1)
    logits = torch.tensor([[0.0, 9.0], [0.0, 0.1]]).repeat(20, 1)
    x = torch.randn(40, 2, generator=rng(3))
    pool = make_pool(40, 2, labelled=labelled, dimensions=2, global_logits=logits, global_embeddings=x)
    pool.labels, pool.labelled = y, lambda model: Outputs(torch.zeros(labelled, 2), z)
    return pool


@pytest.mark.parametrize(
    ("labelled", "apart", "name"),
    [
        (0, 1.0, "maxherding"),
        (1, 9.0, "maxherding"),
        (10, 1.0, "maxherding"),
        (40, 0.4, "maxherding"),  # too few mistakes to tell, too many to be done
        (40, 1.0, "margin"),  # less than a quarter is wrong
        (300, 1.0, "margin"),  # many mistakes, where it is unsure
        (23, 9.0, "maxherding"),  # none, but of few labels
        (24, 9.0, "margin"),
    ],
)
def test_margin_once_labels_are_no_surprise_or_mistakes_show_in_it(make_pool, labelled, apart, name):
    pool = client(make_pool, labelled, apart)
    assert goes_by_margin(pool) == (name == "margin")
    found = make_strategy("auto", "global").select(pool, 5, rng()).indices.tolist()
    assert found == make_strategy(name, "global").select(pool, 5, rng()).indices.tolist()


@pytest.mark.parametrize(
    ("wrong", "right", "lead", "switched"),
    [
        (6, 18, 0.0, True),  # a quarter
        (7, 17, 0.0, False),
        (20, 20, 1.0, True),  # half, and all of these are less sure: by 5.4 standard errors
        (17, 17, 1.0, False),  # by 4.98
        (20, 20, -1.0, False),  # surer
    ],
)
def test_the_switch_is_at_a_quarter_or_at_five_standard_errors(
    make_pool, monkeypatch, wrong, right, lead, switched
):
    mistakes = torch.arange(wrong + right) < wrong
    monkeypatch.setattr(auto, "leave_one_out", lambda *_: (torch.where(mistakes, 0.0, lead), mistakes))
    assert goes_by_margin(client(make_pool, wrong + right, 1.0)) is switched


def test_a_client_tells_where_its_samples_lie(make_pool):
    """Also before there is a model, and anew with each, as embeddings are then others."""
    assert (AUTO.needs_model, AUTO.tells_each_round) == (False, True)
    pool = client(make_pool, 10, 1.0)
    parts = [pool.unlabelled("global").embeddings, pool.labelled("global").embeddings]
    x = F.normalize(torch.cat(parts)) @ directions(2)
    assert summary_of(AUTO, pool) == pytest.approx(x.mean(0).tolist(), abs=1e-6)
    assert summary_of(AUTO, pool_of(blobs(EQUAL[0], 5, 1))) is not None
    assert summary_of(AUTO, pool_of(blobs(EQUAL[0], 4, 1))) is None  # that would tell too much of each


def test_equal_clients_keep_different_parts_and_together_find_every_class():
    """One query each: every client by itself would choose the densest class, the same one."""
    pools = clients_of([[2.0, 1.0, 1.0, 1.0]] * 4)
    chosen = AUTO.select_all(pools, 1, [rng(k) for k in range(4)])
    found = {int(points(p)[s.indices[0]].argmax()) for p, s in zip(pools, chosen, strict=True)}
    alone = {int(points(p)[MaxHerding().select(p, 1, rng()).indices[0]].argmax()) for p in pools}
    assert (found, alone) == ({0, 1, 2, 3}, {0})


def test_each_keeps_its_part_of_what_maxherding_would_choose_for_all():
    pools = clients_of(EQUAL)
    for k, (pool, kept) in enumerate(
        zip(pools, AUTO.select_all(pools, 6, [rng(k) for k in range(4)]), strict=True)
    ):
        everyone = MaxHerding().select(pool, 24, rng(k))
        own = own_part(points(pool)[everyone.indices], 6, k, 4)
        assert kept.indices.tolist() == everyone.indices[own].tolist()
        assert kept.scores.tolist() == everyone.scores[own].tolist()


def test_clients_that_differ_choose_for_themselves():
    pools = clients_of(APART)
    chosen = AUTO.select_all(pools, 5, [rng(k) for k in range(4)])
    for k, pool in enumerate(pools):
        assert chosen[k].indices.tolist() == MaxHerding().select(pool, 5, rng(k)).indices.tolist()


@pytest.mark.parametrize("n", [6, 12])
def test_each_gets_its_budget_though_its_pool_is_small(n):
    pools = clients_of(EQUAL, n)
    for chosen in AUTO.select_all(pools, 6, [rng(k) for k in range(4)]):
        assert len(set(chosen.indices.tolist())) == 6


def test_each_client_for_itself(make_pool):
    pools = [client(make_pool, labelled, 1.0) for labelled in (300, 10, 300)]
    together = make_strategy("auto", "global").select_all(pools, 5, [rng(k) for k in range(3)])
    for k, name in enumerate(("margin", "maxherding", "margin")):
        alone = make_strategy(name, "global").select(pools[k], 5, rng(k))
        assert together[k].indices.tolist() == alone.indices.tolist()
