"""Clients whose samples lie in four classes, told the mean of what all say of themselves."""

import torch

from fedactive.query import Outputs, Pool, make_strategy
from fedactive.query.strategy import summary_of

AUTO = make_strategy("auto", "global")
EQUAL = [[1.0, 1.0, 1.0, 1.0]] * 4
APART = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


def blobs(shares, n, seed):
    """Samples of four classes that lie apart, by their shares."""
    centres, rng = 4 * torch.eye(4, 8), torch.Generator().manual_seed(seed)
    which = torch.multinomial(torch.tensor(shares), n, replacement=True, generator=rng)
    return centres[which] + 0.5 * torch.randn(n, 8, generator=rng)


def pool_of(x, client=0, clients=1):
    """A client with nothing labelled."""
    labels = torch.zeros(0, dtype=torch.long)
    some, none = (Outputs(torch.zeros(len(z), 4), z) for z in (x, x[:0]))
    return Pool(
        len(x), 4, labels, lambda model: some, lambda model: none, lambda model: None,
        client=client, clients=clients,
    )  # fmt: skip


def clients_of(shares, n=400):
    """A client for each row of shares."""
    pools = [pool_of(blobs(own, n, k), k, len(shares)) for k, own in enumerate(shares)]
    mean = torch.tensor([summary_of(AUTO, pool) for pool in pools], dtype=torch.float64).mean(0)
    for pool in pools:
        pool.agreed = mean
    return pools


def points(pool):
    return torch.nn.functional.normalize(pool.unlabelled("global").embeddings)
