"""FedProx (Li et al., MLSys 2020): FedAvg whose clients minimise F_k(w) + μ/2·‖w - Θ‖²; parameters only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from fedactive.federated.algorithm import Algorithm, Server, Terms, Update
from fedactive.federated.algorithms.fedavg import average
from fedactive.federated.weights import Weights


@final
@dataclass(frozen=True)
class FedProx(Algorithm):
    mu: float = 0.01

    def terms(self, server: Server, own: Weights) -> Terms:
        return Terms(proximal=self.mu)

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        return Server(average(updates))
