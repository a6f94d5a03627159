"""FedAdam against the formulas of its paper."""

import pytest
import torch

from fedactive.federated import Update, make_algorithm


def test_two_rounds_by_hand():
    """η = 0.1, β₁ = 0.5, β₂ = 0.75, τ = 0.5; Θ = 1, v = τ² = 0.25.

    Round 1: mean 2, Δ = 1:   m = 0.5,  v = 0.75·0.25 + 0.25·1 = 0.4375,  Θ = 1 + 0.05/(√0.4375 + 0.5)
    Round 2: nobody moves, Δ = 0:  m = 0.25, v = 0.328125, and Θ goes on by 0.025/(√0.328125 + 0.5).
    """
    algorithm = make_algorithm("fedadam", "server_lr=0.1,beta1=0.5,beta2=0.75,tau=0.5")
    server = algorithm.start_server({"w": torch.tensor([1.0]), "seen": torch.tensor(4)}, ["w"])
    assert server.state["v"]["w"].item() == pytest.approx(0.25)
    updates = [
        Update(1, {"w": torch.tensor([5.0]), "seen": torch.tensor(8)}),
        Update(3, {"w": torch.tensor([1.0]), "seen": torch.tensor(4)}),
    ]
    server = algorithm.server_end(server, updates, 2)
    first = 1 + 0.05 / (0.4375**0.5 + 0.5)
    assert server.weights["w"].item() == pytest.approx(first)
    assert server.weights["seen"].item() == 5
    still = [Update(1, dict(server.weights))]
    server = algorithm.server_end(server, still, 2)
    assert server.state["m"]["w"].item() == pytest.approx(0.25)
    assert server.weights["w"].item() == pytest.approx(first + 0.025 / (0.328125**0.5 + 0.5))


def test_its_state_stays_at_the_server():
    algorithm = make_algorithm("fedadam")
    server = algorithm.start_server({"w": torch.ones(2)}, ["w"])
    assert algorithm.client_view(server).state == {}
    assert algorithm.example_update(server).state == {}
