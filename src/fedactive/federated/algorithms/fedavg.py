"""FedAvg (McMahan et al., AISTATS 2017): the mean of the clients' weights, by their labelled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from fedactive.federated.algorithm import Algorithm, Server, Terms, Update
from fedactive.federated.weights import Weights, weighted_mean


def average(updates: Sequence[Update]) -> Weights:
    """Θ = Σ_k |D_k|/|D| Θ_k."""
    return weighted_mean([u.weights for u in updates], [u.samples for u in updates])


@final
@dataclass(frozen=True)
class FedAvg(Algorithm):
    def terms(self, server: Server, own: Weights) -> Terms:
        return Terms()

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        return Server(average(updates))
