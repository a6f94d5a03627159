"""FedProx (Li et al., MLSys 2020): FedAvg whose clients minimise F_k(w) + μ/2·‖w - Θ‖²; parameters only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from fedactive.federated.aggregation import Averaging
from fedactive.federated.algorithm import Server, State, Terms, Update, register
from fedactive.options import option


@final
@register
@dataclass(frozen=True)
class FedProx(Averaging):
    name = "fedprox"
    summary = "FedAvg whose clients are held near the global weights"
    paper = "Li et al., MLSys 2020"

    mu: float = option(0.01, "strength of the proximal term", low=0, high=100)

    def terms(self, server: Server, own: State) -> Terms:
        return Terms(proximal=self.mu)

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        return replace(server, weights=self.aggregate(server, updates))
