"""FedAvgM (Hsu, Qi & Brown, 2019): FedAvg with momentum at the server.

    Δ = Θ - mean_k Θ_k        v = β·v + Δ        Θ = Θ - η·v

Buffers, which no gradient moves, take the plain mean. With β = 0 and η = 1 this is FedAvg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from fedactive.federated.aggregation import Averaging
from fedactive.federated.algorithm import Server, State, Update, register
from fedactive.federated.weights import Weights, zeros_like
from fedactive.options import option

VELOCITY = "velocity"


@final
@register
@dataclass(frozen=True)
class FedAvgM(Averaging):
    name = "fedavgm"
    summary = "FedAvg with momentum at the server"
    paper = "Hsu et al., 2019"

    beta: float = option(0.9, "momentum of the server", low=0, high=0.999)
    server_lr: float = option(1.0, "learning rate of the server", low=1e-8, high=100)

    def start(self, weights: Weights, parameters: Sequence[str]) -> State:
        return {VELOCITY: zeros_like(weights, parameters)}

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        weights = self.aggregate(server, updates)
        velocity: Weights = {}
        for name, v in server.state[VELOCITY].items():
            start = server.weights[name]
            velocity[name] = self.beta * v + (start - weights[name])
            weights[name] = start - self.server_lr * velocity[name]
        return replace(server, weights=weights, state={VELOCITY: velocity})
