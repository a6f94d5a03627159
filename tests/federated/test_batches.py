import torch
from hypothesis import given
from hypothesis import strategies as st

from fedactive.federated.batches import draw_keys, mixed_pairs, shuffled, shuffled_together, steps_per_epoch

seeds = st.integers(0, 2**63 - 1)


@given(seeds, st.integers(1, 4), st.integers(0, 300))
def test_every_epoch_is_a_permutation(seed, epochs, count):
    order = shuffled(seed, epochs, count)
    assert torch.equal(order.sort(dim=1).values, torch.arange(count).expand(epochs, count))


@given(seeds)
def test_epochs_and_seeds_differ(seed):
    order = shuffled(seed, 2, 100)
    assert not torch.equal(order[0], order[1])
    assert not torch.equal(order, shuffled(seed ^ 1, 2, 100))
    assert torch.equal(order, shuffled(seed, 2, 100))


def test_the_order_is_fair():
    """Each sample stands in each tenth of the epoch about equally often: chi-square, 9 degrees of freedom."""
    place = shuffled(12345, 20_000, 10).argsort(dim=1)[:, 0]
    counts = torch.bincount(place, minlength=10).double()
    assert ((counts - 2000) ** 2 / 2000).sum() < 27.9  # the 0.1% value


def test_flips_are_fair_and_independent_of_the_order():
    flips = draw_keys(7, 1000, 50) < 0
    assert abs(flips.double().mean() - 0.5) < 0.01
    late = (shuffled(7, 1000, 50).argsort(dim=1) >= 25).double()
    assert abs(torch.corrcoef(torch.stack([flips.flatten().double(), late.flatten()]))[0, 1]) < 0.02


@given(seeds, st.integers(1, 3), st.integers(1, 20), st.integers(1, 9))
def test_pairs_are_those_of_splitmix(seed, epochs, count, pool):
    first, second, share = mixed_pairs(seed, epochs, count, pool)
    for e in range(epochs):
        for i in range(count):
            one, other, *coins = (splitmix(seed, epochs * (1 + kind) + e, i) for kind in range(5))
            assert (first[e, i], second[e, i]) == (one % pool, other % pool)
            middle = sorted((coin & MASK) >> 11 for coin in coins)[1]
            assert share[e, i] == torch.tensor(middle / 2**53)


def test_shares_are_of_beta_2_2():
    """Mean 1/2, variance 1/20, and a share below 1/4 in 5 of 32 cases; independent of who is drawn."""
    first, second, share = mixed_pairs(5, 1000, 50, 4)
    assert abs(share.mean() - 0.5) < 0.005
    assert abs(share.var() - 0.05) < 0.001
    assert abs((share < 0.25).double().mean() - 5 / 32) < 0.005
    drawn = torch.stack([t.flatten().double() for t in (first, second, share)])
    assert (torch.corrcoef(drawn) - torch.eye(3)).abs().max() < 0.02


def test_the_last_batch_is_kept():
    assert [steps_per_epoch(n, 64) for n in (0, 1, 63, 64, 65, 250)] == [0, 1, 1, 1, 2, 4]


def splitmix(seed: int, epoch: int, position: int) -> int:
    """SplitMix64 in whole numbers of any size: what is computed in tensors, which wrap around."""
    x = ((epoch << 32) + position + 1) * 0x9E3779B97F4A7C15 + seed & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    x ^= x >> 31
    return x - (x >> 63 << 64)  # the same bits as a signed number


MASK = 2**64 - 1


@given(seeds, st.integers(1, 3), st.integers(1, 20))
def test_orders_and_keys_are_those_of_splitmix(seed, epochs, count):
    for e in range(epochs):
        keys = [splitmix(seed, e, i) for i in range(count)]
        assert shuffled(seed, epochs, count)[e].tolist() == sorted(range(count), key=keys.__getitem__)
        assert draw_keys(seed, epochs, count)[e].tolist() == [splitmix(~seed, e, i) for i in range(count)]


@given(st.lists(st.tuples(seeds, st.integers(1, 12)), min_size=1, max_size=4), st.integers(1, 3))
def test_many_clients_have_the_orders_and_keys_of_each_alone(clients, epochs):
    own_seeds, counts = zip(*clients, strict=True)
    orders, keys = shuffled_together(own_seeds, epochs, counts, torch.device("cpu"))
    assert orders.shape == keys.shape == (len(clients), epochs, max(counts))
    for k, (seed, count) in enumerate(clients):
        assert torch.equal(orders[k, :, :count], shuffled(seed, epochs, count))
        assert torch.equal(keys[k, :, :count], draw_keys(seed, epochs, count))
        assert (orders[k, :, count:] == -1).all()
