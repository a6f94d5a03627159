"""Split the training samples over clients: their pools, the labelling budget, the first labelled samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedactive.client import Client, first_labels
from fedactive.data.budget import budgets_per_client
from fedactive.data.imbalance import long_tail
from fedactive.data.partition import given, reference, transport
from fedactive.experiment import Experiment
from fedactive.randomness import Randomness


@dataclass(frozen=True)
class Split:
    """What each client holds. Samples are positions in the dataset's training images."""

    pools: list[np.ndarray]  # per client, all it holds
    first: list[np.ndarray]  # per client, what is labelled in AL round 1
    budgets: tuple[int, ...]  # labels per client, by AL round

    def clients(self, experiment: Experiment) -> list[Client]:
        """Make the clients as they begin, with nothing labelled."""
        return [
            Client(
                experiment=experiment,
                number=k,
                pool=torch.from_numpy(pool).long().sort().values,
                first=torch.from_numpy(first).long(),
                budgets=self.budgets,
                clients=len(self.pools),
            )
            for k, (pool, first) in enumerate(zip(self.pools, self.first, strict=True))
        ]


def split(
    experiment: Experiment, train_labels: Tensor, classes: int, train_clients: Tensor | None = None
) -> Split:
    """Split the training samples as the experiment says; the split is the same for every strategy.

    `train_clients` is the number of the client of each sample, where the data say so.
    """
    e, labels = experiment, train_labels.cpu().numpy()
    if e.partition == "reference":
        dealt = reference(labels, classes, e.clients, e.alpha, e.rho, e.budget, e.seed)
        budgets = budgets_per_client(len(dealt.kept), e.clients, e.budget)
        return Split(dealt.pools, dealt.first_labels, budgets)

    randomness = Randomness(e.seed)
    if e.partition == "given":
        assert train_clients is not None
        pools = given(train_clients.cpu().numpy())
        budgets = budgets_per_client(len(labels), e.clients, e.budget)
        return Split(pools, [first_labels(e, k, pool, budgets) for k, pool in enumerate(pools)], budgets)
    kept = long_tail(labels, e.rho, randomness.numpy("long tail"))
    budgets = budgets_per_client(len(kept), e.clients, e.budget)
    pools = transport(labels[kept], classes, e.clients, e.alpha, randomness.numpy("partition"))
    pools = [kept[pool] for pool in pools]
    return Split(pools, [first_labels(e, k, pool, budgets) for k, pool in enumerate(pools)], budgets)
