"""FedAdam (Reddi et al., ICLR 2021): the mean update is a gradient for Adam at the server.

    Δ = mean_k Θ_k - Θ      m = β₁·m + (1 - β₁)·Δ      v = β₂·v + (1 - β₂)·Δ²      Θ = Θ + η·m / (√v + τ)

As in the paper there is no bias correction, m starts at 0 and v at τ². Buffers, which no gradient moves, take
the plain mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch

from fedactive.federated.aggregation import Averaging
from fedactive.federated.algorithm import Server, State, Update, register
from fedactive.federated.weights import Weights, zeros_like
from fedactive.options import option


@final
@register
@dataclass(frozen=True)
class FedAdam(Averaging):
    name = "fedadam"
    summary = "Adam at the server, with the mean update as its gradient"
    paper = "Reddi et al., ICLR 2021"

    server_lr: float = option(0.01, "learning rate of the server, η", low=1e-8, high=100)
    beta1: float = option(0.9, "decay of the mean", low=0, high=0.999)
    beta2: float = option(0.99, "decay of the mean square", low=0, high=0.9999)
    tau: float = option(1e-3, "added to the root of the mean square", low=1e-8, high=1)

    def start(self, weights: Weights, parameters: Sequence[str]) -> State:
        squares = {name: torch.full_like(weights[name], self.tau**2) for name in parameters}
        return {"m": zeros_like(weights, parameters), "v": squares}

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        weights = self.aggregate(server, updates)
        m: Weights = {}
        v: Weights = {}
        for name in server.parameters:
            delta = weights[name] - server.weights[name]
            m[name] = self.beta1 * server.state["m"][name] + (1 - self.beta1) * delta
            v[name] = self.beta2 * server.state["v"][name] + (1 - self.beta2) * delta.square()
            weights[name] = server.weights[name] + self.server_lr * m[name] / (v[name].sqrt() + self.tau)
        return replace(server, weights=weights, state={"m": m, "v": v})
