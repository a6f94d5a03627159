"""What all algorithms share: states on devices, what clients see, and the form of updates."""

from dataclasses import dataclass

import pytest
import torch

from fedactive.federated import ALGORITHMS, Algorithm, Server, Terms, Trajectory, Update, make_algorithm
from fedactive.federated.algorithm import as_control_group, sends_more_than_weights, state_to_device
from fedactive.options import options_of

WEIGHTS = {"w": torch.ones(2), "n": torch.tensor(3)}
STATE = {"control": {"w": torch.zeros(2)}}
ELSEWHERE = torch.device("meta")


def test_everything_moves_to_a_device():
    for whole in (Server(WEIGHTS, ("w",), STATE), Update(7, WEIGHTS, STATE)):
        moved = whole.to(ELSEWHERE)
        assert {name: value.device for name, value in moved.weights.items()} == dict.fromkeys(
            WEIGHTS, ELSEWHERE
        )
        assert moved.state["control"]["w"].device == ELSEWHERE
        assert whole.weights["w"].device.type == "cpu"
    assert Server(WEIGHTS, ("w",), STATE).to(ELSEWHERE).parameters == ("w",)
    assert Update(7, WEIGHTS, STATE).to(ELSEWHERE).samples == 7
    assert state_to_device(STATE, ELSEWHERE)["control"]["w"].device == ELSEWHERE


@dataclass(frozen=True)
class Plain(Algorithm):
    def server_end(self, server, updates, clients):
        return server


def test_an_algorithm_remembers_and_adds_nothing_unless_it_says_so():
    server = Plain().start_server(WEIGHTS, ["w"])
    assert Plain.steps  # clients train, so that there are models of local training
    assert server == Server(WEIGHTS, ("w",), {})
    assert Plain().client_start(server) == Plain().broadcast(server) == {}
    assert Plain().terms(server, {}) == Terms(proximal=0.0, drift=None)
    own, update = Plain().client_end(server, STATE, Trajectory(WEIGHTS, 0.5), 9)
    assert own is STATE
    assert update == Update(9, WEIGHTS, {})


def test_the_variates_of_version_0_1_become_a_group():
    assert as_control_group(STATE["control"]) == STATE
    assert as_control_group({}) == {}


def test_clients_see_what_is_broadcast():
    for name, seen in (("scaffold", {"control"}), ("fedadam", set()), ("fedavg", set())):
        algorithm = make_algorithm(name)
        view = algorithm.client_view(algorithm.start_server(WEIGHTS, ["w"]))
        assert (set(view.state), view.weights, view.parameters) == (seen, WEIGHTS, ("w",))


def test_an_example_of_an_update_has_the_form_that_clients_send():
    for name, groups in (("fedavg", {}), ("scaffold", {"control": ["w"]}), ("fednova", {"path": ["length"]})):
        algorithm = make_algorithm(name)
        example = algorithm.example_update(algorithm.start_server(WEIGHTS, ["w"]))
        assert example.weights == WEIGHTS
        assert {group: list(tensors) for group, tensors in example.state.items()} == groups
        assert sends_more_than_weights(algorithm) is bool(groups)


@pytest.mark.parametrize(
    ("algorithm", "name", "default", "low", "high"),
    [
        ("fedprox", "mu", 0.01, 0, 100),
        ("fedavgm", "beta", 0.9, 0, 0.999),
        ("fedavgm", "server_lr", 1.0, 1e-8, 100),
        ("fedadam", "server_lr", 0.01, 1e-8, 100),
        ("fedadam", "beta1", 0.9, 0, 0.999),
        ("fedadam", "beta2", 0.99, 0, 0.9999),
        ("fedadam", "tau", 1e-3, 1e-8, 1),
        ("ridge", "penalty", 30.0, 1e-6, 1e9),
        ("ridge", "class_weights", True, None, None),
    ],
)
def test_options_have_the_defaults_and_bounds_that_runs_rely_on(algorithm, name, default, low, high):
    found = {option.name: option for option in options_of(ALGORITHMS[algorithm])}[name]
    assert (found.default, found.low, found.high) == (default, low, high)
