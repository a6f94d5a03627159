"""FedAvg, FedProx and SCAFFOLD against numbers worked out by hand."""

import pytest
import torch

from fedactive.federated import make_algorithm
from fedactive.federated.algorithm import Server, Trajectory, Update
from fedactive.federated.weights import weighted_mean


def vector(*values: float):
    return {"w": torch.tensor(values)}


def control(value: float):
    return {"control": vector(value)}


def test_the_mean_is_weighted_by_samples_and_covers_integer_buffers():
    a = {"w": torch.tensor([1.0]), "seen": torch.tensor(4)}
    b = {"w": torch.tensor([5.0]), "seen": torch.tensor(8)}
    mean = weighted_mean([a, b], [30, 10])
    assert mean["w"].item() == pytest.approx(2.0)
    assert mean["seen"].item() == 5
    assert mean["seen"].dtype == torch.int64
    assert weighted_mean([{"seen": torch.tensor(7)}] * 10, [250] * 10)["seen"].item() == 7


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
def test_fedavg_and_fedprox_average_what_the_clients_send(name):
    algorithm = make_algorithm(name)
    server = algorithm.start_server(vector(0.0), ["w"])
    own, update = algorithm.client_end(server, {}, Trajectory(vector(8.0), 1.0), samples=1)
    assert own == {}
    after = algorithm.server_end(server, [update, Update(3, vector(4.0))], clients=2)
    assert after.weights["w"].item() == pytest.approx(5.0)


def test_only_fedprox_has_a_proximal_term():
    server = Server(vector(0.0))
    assert make_algorithm("fedavg").terms(server, {}).proximal == 0
    assert make_algorithm("fedprox", "mu=0.25").terms(server, {}).proximal == 0.25


def test_scaffold_by_hand():
    """Two of four clients take part. Θ = 1, c = 0.5; path length 0.2.

    Client 1: c_1 = 0.1, ends at 0.8:  c_1⁺ = 0.1 - 0.5 + (1 - 0.8)/0.2 = 0.6, change 0.5
    Client 2: c_2 = 0.3, ends at 1.1:  c_2⁺ = 0.3 - 0.5 + (1 - 1.1)/0.2 = -0.7, change -1.0
    c⁺ = 0.5 + 2/4 · mean(0.5, -1.0) = 0.375,  Θ⁺ = (1·0.8 + 3·1.1)/4 = 1.025
    """
    algorithm = make_algorithm("scaffold")
    server = Server(vector(1.0), ("w",), control(0.5))
    assert algorithm.terms(server, control(0.1)).drift["w"].item() == pytest.approx(0.4)
    own1, update1 = algorithm.client_end(server, control(0.1), Trajectory(vector(0.8), 0.2), samples=1)
    own2, update2 = algorithm.client_end(server, control(0.3), Trajectory(vector(1.1), 0.2), samples=3)
    assert own1["control"]["w"].item() == pytest.approx(0.6)
    assert own2["control"]["w"].item() == pytest.approx(-0.7)
    after = algorithm.server_end(server, [update1, update2], clients=4)
    assert after.state["control"]["w"].item() == pytest.approx(0.375)
    assert after.weights["w"].item() == pytest.approx(1.025)


def test_scaffold_variates_start_at_zero_and_leave_buffers_out():
    algorithm = make_algorithm("scaffold")
    server = algorithm.start_server({"w": torch.ones(2), "running_mean": torch.ones(2)}, ["w"])
    assert set(server.state["control"]) == {"w"}
    assert not server.state["control"]["w"].any()
    assert not algorithm.client_start(server)["control"]["w"].any()


def test_with_one_client_scaffold_is_fedavg():
    """c = c_1 always, so there is never a drift to correct."""
    algorithm = make_algorithm("scaffold")
    server = algorithm.start_server(vector(1.0), ["w"])
    own = algorithm.client_start(server)
    for end in (0.7, 0.2):
        assert algorithm.terms(server, own).drift["w"].item() == pytest.approx(0.0)
        own, update = algorithm.client_end(server, own, Trajectory(vector(end), 0.1), samples=5)
        server = algorithm.server_end(server, [update], clients=1)
        assert server.weights["w"].item() == pytest.approx(end)
