"""FedAvgM against the formulas of its paper."""

import pytest
import torch

from fedactive.federated import Update, make_algorithm


def test_two_rounds_by_hand():
    """β = 0.5, η = 1, Θ = 4. Round 1: mean 2, v = 2, Θ = 2. Round 2: mean 1, v = 0.5·2 + 1 = 2, Θ = 0."""
    algorithm = make_algorithm("fedavgm", "beta=0.5")
    server = algorithm.start_server({"w": torch.tensor([4.0]), "mean": torch.tensor([9.0])}, ["w"])
    for sent, expected in ((2.0, 2.0), (1.0, 0.0)):
        update = Update(5, {"w": torch.tensor([sent]), "mean": torch.tensor([sent])})
        server = algorithm.server_end(server, [update], 1)
        assert server.weights["w"].item() == pytest.approx(expected)
        assert server.weights["mean"].item() == sent  # no momentum for what no gradient moves
    assert server.state["velocity"]["w"].item() == pytest.approx(2.0)


def test_without_momentum_it_is_fedavg():
    algorithm, fedavg = make_algorithm("fedavgm", "beta=0"), make_algorithm("fedavg")
    weights = {"w": torch.tensor([4.0, -1.0])}
    updates = [Update(1, {"w": torch.tensor([3.0, 0.5])}), Update(4, {"w": torch.tensor([1.0, 2.0])})]
    ours, theirs = (
        a.server_end(a.start_server(weights, ["w"]), updates, 2).weights["w"] for a in (algorithm, fedavg)
    )
    assert torch.allclose(ours, theirs)
