"""Who is like the others, for how many a client then chooses, and which part it keeps."""

import pytest
import torch
from torch.nn import functional as F

from fedactive.query.alike import along, directions, for_all, is_alike, own_part
from support.blobs import APART, EQUAL, clients_of, points


def samples(n):
    return F.normalize(torch.randn(n, 8, generator=torch.Generator().manual_seed(3)))


def test_directions_are_the_same_for_all():
    assert directions(8).shape == (8, 16)
    assert directions(8)[1, :2].tolist() == pytest.approx([-1.0530, 0.3861], abs=1e-4)  # of any version
    assert torch.equal(directions(8), directions.__wrapped__(8))
    torch.testing.assert_close(along(samples(5)), samples(5) @ directions(8))
    assert along(samples(5).double()).dtype == torch.float64


@pytest.mark.parametrize(("shares", "alike"), [(EQUAL, True), (APART, False)])
@pytest.mark.parametrize("n", [10, 400])
def test_who_is_alike(shares, alike, n):
    pools = clients_of(shares, n)
    assert [is_alike(points(pool), pool.agreed, 4) for pool in pools] == [alike] * 4


@pytest.mark.parametrize("clients", [2, 10])
def test_how_far_the_others_may_be(clients):
    """A thousandth of the variance, and twice what chance makes of 200 samples each."""
    x = samples(200)
    own, variance = along(x).mean(0), along(x).var(0).sum()
    bound = ((1 / 1000 + 2 * clients / (clients - 1) / 200) * variance).sqrt()
    for by, alike in ((0.99, True), (1.01, False)):
        others = own + by * bound * F.normalize(torch.ones(16), dim=0)
        assert is_alike(x, (own + (clients - 1) * others) / clients, clients) is alike


def test_who_knows_of_no_others_is_not_like_them():
    x = samples(200)
    assert is_alike(x, along(x).mean(0), 2)
    assert not is_alike(x, along(x).mean(0), 1)
    assert not is_alike(x, None, 2)
    assert is_alike(x[:2], along(x[:2]).mean(0), 2)
    assert not is_alike(x[:1], along(x[:1]).mean(0), 2)  # one sample does not scatter
    same = torch.zeros(5, 8)
    assert not is_alike(same, along(same).mean(0), 2)  # nor do equal ones


def test_parts_are_those_of_the_order_along_the_first_direction():
    x = samples(12)
    order = along(x)[:, 0].argsort().tolist()
    assert [own_part(x, 3, k, 4).tolist() for k in range(4)] == [
        sorted(order[3 * k : 3 * k + 3]) for k in range(4)
    ]
    assert own_part(x, 5, 3, 4).tolist() == sorted(order[-5:])  # too few for all: parts overlap
    assert own_part(x, 5, 1, 4).tolist() == sorted(order[3:8])
    equal = torch.ones(40, 8)
    assert own_part(equal, 10, 2, 4).tolist() == list(range(20, 30))  # of equal ones the first


def test_for_all_at_most_half_of_the_pool():
    assert for_all(5, 10, 1000) == 50
    assert for_all(5, 10, 61) == 30
    assert for_all(5, 10, 8) == 5  # but never fewer than its own
