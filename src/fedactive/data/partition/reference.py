"""The partition behind the published tables: the authors' procedure, from the same seeds.

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Appendix A.
From CIFAR-10's labels it reproduces the EMD of the paper's first labelled sets to three decimals (all but
rho = 1, alpha = inf), so that results can be compared with the paper's tables. The EMD confirms how many
samples of a class a client has, not which ones. On imbalanced classes it departs from the Dirichlet shares:
clients fill up before some classes are used up, and the rest is handed out class by class.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from fedactive.data.budget import Budget, budgets_per_client
from fedactive.data.imbalance import long_tail_sizes
from fedactive.data.partition.shares import balanced, check_request
from fedactive.errors import ConfigurationError

MOST_PASSES = 100
ALPHA_OF_IID = 10_000.0  # with which identical clients (alpha = inf) were drawn


@dataclass(frozen=True)
class ReferenceSplit:
    """Indices into all labels, one array per client: the samples it has, and those labelled at the start."""

    pools: list[NDArray[np.int64]]
    first_labels: list[NDArray[np.int64]]

    @property
    def kept(self) -> NDArray[np.int64]:
        """The sorted indices of all samples that any client has: what the long tail left."""
        return np.sort(np.concatenate(self.pools))


def reference(
    labels: NDArray[np.int64],
    classes: int,
    clients: int,
    alpha: float,
    rho: float,
    budget: Budget,
    seed: int,
) -> ReferenceSplit:
    """Make long tail, partition and first labels, with one seed for all three generators involved."""
    if seed >= 2**32:
        raise ConfigurationError("seed", seed, "less than 2^32 with partition reference")
    if ALPHA_OF_IID < alpha < math.inf:
        raise ConfigurationError("alpha", alpha, f"at most {ALPHA_OF_IID:g} or inf with partition reference")
    legacy_numpy = np.random.RandomState(seed)
    kept = train_copy(labels, classes, rho, legacy_numpy)
    N = len(kept)
    check_request(N, clients, alpha)
    shares = torch_shares(N, clients, classes, alpha, seed)
    drawn, rest = draw_in_turns(labels[kept], shares, random.Random(seed))
    pools = [kept[pool] for pool in fill_up(drawn, rest)]

    B = budgets_per_client(N, clients, budget)[0]
    first_labels = [legacy_numpy.choice(pool, min(B, len(pool)), replace=False) for pool in pools]
    return ReferenceSplit(pools, first_labels)


def train_copy(
    labels: NDArray[np.int64], classes: int, rho: float, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Return the indices kept, class by class; rho = 1 left the dataset as it was and drew nothing."""
    sizes = long_tail_sizes(np.bincount(labels, minlength=classes), rho)
    if rho == 1:
        return np.arange(len(labels))

    def one_copy() -> NDArray[np.int64]:
        shuffled = [rng.permutation(np.flatnonzero(labels == c)) for c in range(classes)]
        return np.concatenate([members[:size] for members, size in zip(shuffled, sizes, strict=True)])

    first = one_copy()
    # Images to query came from a second copy, thinned again, in which an index meant another image: a bug.
    # Only its random draws are repeated here.
    one_copy()
    return first


def torch_shares(samples: int, clients: int, classes: int, alpha: float, seed: int) -> NDArray[np.float64]:
    """Draw the balanced matrix of Dirichlet rows from torch's generator."""
    generator = torch.Generator().manual_seed(seed)
    torch.rand(samples, generator=generator)  # one number had been drawn for each training image
    concentration = torch.full((clients, classes), ALPHA_OF_IID if math.isinf(alpha) else float(alpha))
    # The function behind torch.distributions.Dirichlet, which cannot be given a generator.
    return balanced(torch._sample_dirichlet(concentration, generator).double().numpy())


def draw_in_turns(
    labels: NDArray[np.int64], shares: NDArray[np.float64], rng: random.Random
) -> tuple[list[list[int]], list[int]]:
    """Let clients take turns drawing what they want of each class; return their pools and the rest by class.

    The original then did the same to the test set; nothing that follows depends on it.
    """
    K, C = shares.shape
    left: list[list[int]] = [np.flatnonzero(labels == c).tolist() for c in range(C)]
    # With K ≠ C the shares of a class sum to K/C, not 1: a pass then takes more, or less, than there is.
    wanted = np.ceil(shares * [len(members) for members in left]).astype(int)
    wanted = np.where(wanted <= 1, 0, wanted + 1)
    capacity = client_capacity(len(labels), K)
    pools: list[list[int]] = [[] for _ in range(K)]
    for _ in range(MOST_PASSES):
        for pool, wants in zip(pools, wanted, strict=True):
            for c in range(C):
                count = min(wants[c], len(left[c]), capacity - len(pool))
                if count > 0:
                    taken = rng.sample(left[c], count)
                    pool += taken
                    # Do not simplify: the iteration order of this set of ints decides the next draw.
                    left[c] = list(set(left[c]) - set(taken))
    return pools, [index for members in left for index in members]


def fill_up(pools: list[list[int]], rest: list[int]) -> list[NDArray[np.int64]]:
    """Let every client in turn take from the rest until it is full."""
    capacity = client_capacity(sum(map(len, pools)) + len(rest), len(pools))
    remaining = iter(rest)
    return [np.array([*pool, *islice(remaining, capacity - len(pool))], dtype=np.int64) for pool in pools]


def client_capacity(samples: int, clients: int) -> int:
    return math.ceil(samples / clients)
