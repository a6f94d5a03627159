"""SCAFFOLD (Karimireddy et al., ICML 2020): control variates c and c_k correct each client's drift.

    client    g = ∇F_k(w) - c_k + c
              c_k⁺ = c_k - c + (Θ - Θ_k) / length          (option II of the paper)
    server    Θ = weighted mean of Θ_k,     c = c + |S|/N · mean_k (c_k⁺ - c_k)

The original has no momentum and divides by steps x rate. With momentum each gradient moves the weights
further than that, and the same division would make c_k grow without bound; `length` is how far a constant
unit gradient moves a weight, which is steps x rate when the momentum is 0. So c_k⁺ is always the mean
gradient along the path. Variates cover the parameters, not the BatchNorm buffers, and start at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from fedactive.federated.algorithm import Algorithm, Server, Terms, Trajectory, Update
from fedactive.federated.algorithms.fedavg import average
from fedactive.federated.weights import Weights, weighted_mean, zeros_like


@final
@dataclass(frozen=True)
class Scaffold(Algorithm):
    def start(self, weights: Weights, parameters: Sequence[str]) -> Server:
        return Server(weights, control=zeros_like(weights, parameters))

    def client_start(self, server: Server) -> Weights:
        return zeros_like(server.control, list(server.control))

    def terms(self, server: Server, own: Weights) -> Terms:
        return Terms(drift={name: c - own[name] for name, c in server.control.items()})

    def client_end(
        self, server: Server, own: Weights, trajectory: Trajectory, samples: int
    ) -> tuple[Weights, Update]:
        new = {
            name: own[name] - c + (server.weights[name] - trajectory.weights[name]) / trajectory.length
            for name, c in server.control.items()
        }
        change = {name: new[name] - own[name] for name in new}
        return new, Update(samples, trajectory.weights, control=change)

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        mean_change = weighted_mean([u.control for u in updates], [1.0] * len(updates))
        share = len(updates) / clients
        control = {name: c + share * mean_change[name] for name, c in server.control.items()}
        return Server(average(updates), control)
