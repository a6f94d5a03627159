"""SCAFFOLD (Karimireddy et al., ICML 2020): control variates c and c_k correct each client's drift.

    client    g = ∇F_k(w) - c_k + c
              c_k⁺ = c_k - c + (Θ - Θ_k) / length          (option II of the paper)
    server    Θ = weighted mean of Θ_k,     c = c + |S|/N · mean_k (c_k⁺ - c_k)

The original has no momentum and divides by steps x rate. With momentum each gradient moves the weights
further than that, and the same division would make c_k grow without bound. `length` is how far a constant
gradient of 1 moves a weight, which is steps x rate when the momentum is 0. So c_k⁺ is always the mean
gradient along the path. Variates cover the parameters, not the BatchNorm buffers, and start at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from fedactive.federated.aggregation import average
from fedactive.federated.algorithm import Algorithm, Server, State, Terms, Trajectory, Update, register
from fedactive.federated.weights import Weights, weighted_mean, zeros_like

CONTROL = "control"


@final
@register
@dataclass(frozen=True)
class Scaffold(Algorithm):
    name = "scaffold"
    summary = "control variates correct the drift of each client"
    paper = "Karimireddy et al., ICML 2020"

    def start(self, weights: Weights, parameters: Sequence[str]) -> State:
        return {CONTROL: zeros_like(weights, parameters)}

    def client_start(self, server: Server) -> State:
        return {CONTROL: zeros_like(server.weights, server.parameters)}

    def broadcast(self, server: Server) -> State:
        return server.state

    def terms(self, server: Server, own: State) -> Terms:
        return Terms(drift={name: c - own[CONTROL][name] for name, c in server.state[CONTROL].items()})

    def client_end(
        self, server: Server, own: State, trajectory: Trajectory, samples: int
    ) -> tuple[State, Update]:
        old = own[CONTROL]
        new = {
            name: old[name] - c + (server.weights[name] - trajectory.weights[name]) / trajectory.length
            for name, c in server.state[CONTROL].items()
        }
        change = {name: new[name] - old[name] for name in new}
        return {CONTROL: new}, Update(samples, trajectory.weights, {CONTROL: change})

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        mean_change = weighted_mean([u.state[CONTROL] for u in updates], [1.0] * len(updates))
        share = len(updates) / clients
        control = {name: c + share * mean_change[name] for name, c in server.state[CONTROL].items()}
        return replace(server, weights=average(updates), state={CONTROL: control})
