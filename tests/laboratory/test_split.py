import numpy as np
import pytest

from fedactive.errors import ConfigurationError
from fedactive.laboratory.split import split


@pytest.mark.parametrize("partition", ["transport", "reference"])
def test_first_labels_lie_in_the_pools_and_fill_the_budget(small, digits, partition):
    dealt = split(small(partition=partition, clients=5, alpha=0.1), digits.train_labels, 10)
    assert dealt.budgets == (14,)  # 5% of 1,400 over 5 clients
    assert np.sort(np.concatenate(dealt.pools)).tolist() == list(range(len(digits.train_labels)))
    for pool, first in zip(dealt.pools, dealt.first, strict=True):
        assert len(set(first)) == 14
        assert set(first) <= set(pool)


@pytest.mark.parametrize("partition", ["transport", "reference"])
def test_strategies_share_the_split_and_seeds_do_not(small, digits, partition):
    a, b, c = (
        split(small(partition=partition, strategy=s, seed=seed), digits.train_labels, 10)
        for s, seed in (("logo", 1), ("random", 1), ("logo", 2))
    )
    assert all(np.array_equal(x, y) for x, y in zip(a.first, b.first, strict=True))
    assert not all(np.array_equal(x, y) for x, y in zip(a.first, c.first, strict=True))


def test_the_long_tail_is_cut_before_the_partition(small, digits):
    dealt = split(small(rho=10), digits.train_labels, 10)
    counts = np.bincount(digits.train_labels[np.concatenate(dealt.pools)], minlength=10)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)


def test_more_clients_than_the_budget_can_serve_is_refused(small, digits):
    with pytest.raises(ConfigurationError, match="budget"):
        split(small(clients=100), digits.train_labels, 10)
