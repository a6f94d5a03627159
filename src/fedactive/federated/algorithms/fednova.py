"""FedNova (Wang et al., NeurIPS 2020): a client that makes more steps does not count for more.

Each client's change is divided by the length of its path; the mean of these directions goes the mean length:

    d_k = (Θ - Θ_k) / L_k         Θ = Θ - (Σ_k p_k L_k) · Σ_k p_k d_k         p_k = |D_k|/|D|

L_k = η·‖a_k‖₁ of the paper: with momentum m, Σ_t η_t·(1 + m + ... + m^t). Where all lengths are equal this
is FedAvg. Buffers, which no gradient moves, take the plain mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch

from fedactive.federated.aggregation import average, shares
from fedactive.federated.algorithm import Algorithm, Server, State, Trajectory, Update, register

PATH, LENGTH = "path", "length"


@final
@register
@dataclass(frozen=True)
class FedNova(Algorithm):
    name = "fednova"
    summary = "each client's change is divided by its path length before the mean"
    paper = "Wang et al., NeurIPS 2020"

    def client_end(
        self, server: Server, own: State, trajectory: Trajectory, samples: int
    ) -> tuple[State, Update]:
        length = torch.tensor(trajectory.length, dtype=torch.float32)
        return own, Update(samples, trajectory.weights, {PATH: {LENGTH: length}})

    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        p = shares(updates)
        lengths = [update.state[PATH][LENGTH].item() for update in updates]
        mean_length = sum(p_k * length for p_k, length in zip(p, lengths, strict=True))
        weights = average(updates)
        for name in server.parameters:
            start = server.weights[name]
            direction = sum(
                p_k * (start - update.weights[name]) / length
                for p_k, update, length in zip(p, updates, lengths, strict=True)
            )
            weights[name] = start - mean_length * direction
        return replace(server, weights=weights)
