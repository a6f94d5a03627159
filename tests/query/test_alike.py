"""Clients that are alike notice it, and share out what each would choose for all; others choose for themselves."""

import pytest
import torch
from torch.nn import functional as F

from fedactive.query import Outputs, Pool, make_strategy
from fedactive.query.alike import along, directions, for_all, is_alike, own_part
from fedactive.query.strategies.maxherding import MaxHerding
from fedactive.query.strategy import summary_of

AUTO = make_strategy("auto", "global")


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(shares, n, seed):
    """Samples of four classes that lie apart, by their shares."""
    centres = 4 * torch.eye(4, 8)
    which = torch.multinomial(torch.tensor(shares), n, replacement=True, generator=rng(seed))
    return centres[which] + 0.5 * torch.randn(n, 8, generator=rng(seed + 100))


def pool_of(x, client=0, clients=1):
    n, none = len(x), torch.zeros(0, dtype=torch.long)
    outputs = {True: Outputs(torch.zeros(0, 4), x[:0]), False: Outputs(torch.zeros(n, 4), x)}
    return Pool(
        n, 4, none, lambda model: outputs[False], lambda model: outputs[True], lambda model: None,
        client=client, clients=clients,
    )  # fmt: skip


def told_the_mean(pools):
    mean = torch.tensor([summary_of(AUTO, pool) for pool in pools], dtype=torch.float64).mean(0)
    for pool in pools:
        pool.agreed = mean
    return pools


EQUAL = [[1.0, 1.0, 1.0, 1.0]] * 4
APART = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


def clients(shares, n=400):
    return told_the_mean([pool_of(blobs(own, n, k), k, len(shares)) for k, own in enumerate(shares)])


def points(pool):
    return F.normalize(pool.unlabelled("global").embeddings)


def test_a_client_tells_the_mean_of_its_samples_along_directions_that_are_the_same_for_all():
    pool = pool_of(blobs(EQUAL[0], 50, 1))
    assert summary_of(AUTO, pool) == pytest.approx((points(pool) @ directions(8)).mean(0).tolist(), abs=1e-6)
    assert directions(8).shape == (8, AUTO.numbers)
    assert summary_of(AUTO, pool_of(blobs(EQUAL[0], 5, 1))) is not None
    assert summary_of(AUTO, pool_of(blobs(EQUAL[0], 4, 1))) is None  # that would tell too much of each


@pytest.mark.parametrize(("shares", "alike"), [(EQUAL, True), (APART, False)])
@pytest.mark.parametrize("n", [10, 400])
def test_who_is_alike(shares, alike, n):
    assert [is_alike(points(pool), pool.agreed, 4) for pool in clients(shares, n)] == [alike] * 4


@pytest.mark.parametrize("clients", [2, 10])
def test_how_far_the_others_may_be(clients):
    x = F.normalize(torch.randn(200, 8, generator=rng()))
    places = along(x)
    others = places.mean(0) + F.normalize(torch.ones(16), dim=0) * share(clients, places)
    for by, alike in ((0.99, True), (1.01, False)):
        mean = places.mean(0) + by * (clients - 1) / clients * (others - places.mean(0))
        assert is_alike(x, mean, clients) is alike
    assert not is_alike(x[:1], along(x[:1]).mean(0), clients)  # one sample does not scatter
    assert not is_alike(x, places.mean(0), 1)  # there are no others
    assert not is_alike(x, None, clients)  # nothing is known of them


def share(clients, places):
    """How far the mean of the others may be: a fortieth of the variance, and twice what chance makes of 200."""
    return ((1 / 40 + 2 * clients / (clients - 1) / 200) * places.var(0).sum()).sqrt()


def test_equal_clients_keep_different_parts_and_together_find_every_class():
    """One query each: every client by itself would choose the densest class, the same one."""
    pools = clients([[2.0, 1.0, 1.0, 1.0]] * 4)
    chosen = AUTO.select_all(pools, 1, [rng(k) for k in range(4)])
    found = {int(points(p)[s.indices[0]].argmax()) for p, s in zip(pools, chosen, strict=True)}
    alone = {int(points(p)[MaxHerding().select(p, 1, rng()).indices[0]].argmax()) for p in pools}
    assert (found, alone) == ({0, 1, 2, 3}, {0})


def test_clients_that_differ_choose_for_themselves():
    pools = clients(APART)
    chosen = AUTO.select_all(pools, 5, [rng(k) for k in range(4)])
    for k, pool in enumerate(pools):
        assert chosen[k].indices.tolist() == MaxHerding().select(pool, 5, rng(k)).indices.tolist()


def test_parts_are_those_of_the_order_along_the_first_direction():
    x = F.normalize(torch.randn(12, 8, generator=rng(3)))
    order = along(x)[:, 0].argsort().tolist()
    parts = [own_part(x, 3, k, 4).tolist() for k in range(4)]
    assert parts == [sorted(order[3 * k : 3 * k + 3]) for k in range(4)]
    assert own_part(x, 5, 3, 4).tolist() == sorted(order[-5:])  # too few for all: parts overlap


def test_for_all_at_most_half_of_the_pool():
    assert for_all(5, 10, 1000) == 50
    assert for_all(5, 10, 60) == 30
    assert for_all(5, 10, 8) == 5  # but never fewer than its own


@pytest.mark.parametrize("n", [6, 12, 400])
def test_each_gets_its_budget_though_its_pool_is_small(n):
    pools = clients(EQUAL, n)
    for pool, chosen in zip(pools, AUTO.select_all(pools, 6, [rng(k) for k in range(4)]), strict=True):
        assert len(set(chosen.indices.tolist())) == 6
        assert chosen.scores.tolist() == sorted(chosen.scores.tolist(), reverse=True)
        assert len(pool) == n
