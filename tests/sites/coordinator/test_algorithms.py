"""Algorithms that nobody had in mind when the messages were made: they run between sites as in the laboratory."""

from __future__ import annotations

import dataclasses
import json
from typing import final

import pytest
import torch

from fedactive.errors import ConfigurationError
from fedactive.federated.aggregation import average
from fedactive.federated.algorithm import Algorithm, Terms, Update, register
from fedactive.laboratory import run as laboratory
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.flower.wire import decode_reply, decode_request, encode_reply, encode_request
from support.loopback import Loopback, loopback

NAMES = ["north", "south", "west"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)


class OverTheWire(Loopback):
    """Every request and reply becomes Flower's records and comes back from them."""

    def ask(self, requests, seconds):
        sent = {k: decode_request(encode_request(request)) for k, request in requests.items()}
        return {k: decode_reply(encode_reply(r)) for k, r in super().ask(sent, seconds).items()}


def run_both(experiment, tmp_path):
    """The laboratory's run and the field's, and all that was sent."""
    inside = loopback(experiment, tmp_path)
    transport = OverTheWire(inside.trainers, inside.annotators)
    replies = []
    transport.tamper = lambda k, request, reply: replies.append((request, reply)) or reply
    experiment_there = dataclasses.replace(experiment, runs_dir=tmp_path / "coordinator")
    result = run_plan(FieldPlan(experiment_there, Rules()), transport, NAMES)
    return laboratory.run(experiment), result, [pair for pair in replies if pair[0].kind == "train"]


def assert_same_server(lab, field):
    theirs, ours = (read_checkpoint(result.folder / "checkpoint.pt").server for result in (lab, field))
    assert theirs.state.keys() == ours.state.keys()
    for one, other in [
        (theirs.weights, ours.weights),
        *((theirs.state[g], ours.state[g]) for g in ours.state),
    ]:
        assert one.keys() == other.keys()
        for name, value in one.items():
            torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["fedadam", "fedavgm"])
def test_what_only_the_server_remembers_never_travels(small, tmp_path, algorithm):
    experiment = small(algorithm=algorithm, strategy="random", rounds=2, fl_rounds=3)
    lab, field, sent = run_both(experiment, tmp_path)
    assert_same_server(lab, field)
    assert read_checkpoint(field.folder / "checkpoint.pt").server.state
    assert all(request.state == {} == reply.state for request, reply in sent)


def test_a_number_beside_the_weights_arrives(small, tmp_path):
    experiment = small(algorithm="fednova", strategy="random", rounds=2, fl_rounds=2)
    lab, field, sent = run_both(experiment, tmp_path)
    assert_same_server(lab, field)
    assert all(reply.state["path"]["length"].shape == () for _, reply in sent)


def test_sums_without_weights_arrive_and_one_round_is_enough(small, tmp_path):
    experiment = small(algorithm="ridge", model="linear", strategy="margin", rounds=2, fl_rounds=20)
    lab, field, sent = run_both(experiment, tmp_path)
    assert_same_server(lab, field)
    assert len(sent) == 2 * len(NAMES)
    assert all(reply.weights == {} and set(reply.state) == {"sums"} for _, reply in sent)


@pytest.mark.parametrize("objective", ["kcfu", "distillation"])
def test_an_objective_sends_nothing_beside_the_weights(small, tmp_path, objective):
    """A site's teacher is the model that it was sent, and the images that it mixes are its own."""
    experiment = small(objective=objective, strategy="margin", rounds=2, fl_rounds=2)
    lab, field, sent = run_both(experiment, tmp_path)
    assert_same_server(lab, field)
    assert all(request.state == {} == reply.state for request, reply in sent)
    assert {name for _, reply in sent for name in reply.weights} == set(sent[0][0].weights)


@final
@dataclasses.dataclass(frozen=True)
class Echo(Algorithm):
    """Keeps state on both sides, sends several groups both ways, and one of its groups is empty."""

    name = "echo"
    summary = "for tests"
    paper = "none"

    def start(self, weights, parameters):
        return {
            "sum": {name: torch.zeros_like(weights[name]) for name in parameters},
            "secret": {"n": torch.ones(2)},
        }

    def client_start(self, server):
        return {"rounds": {"count": torch.zeros((), dtype=torch.long)}}

    def broadcast(self, server):
        return {"request": server.state["sum"], "nothing": {}}

    def terms(self, server, own):
        return Terms(drift={name: 0.01 * value for name, value in server.state["request"].items()})

    def client_end(self, server, own, trajectory, samples):
        count = own["rounds"]["count"] + 1
        state = {
            "values": {"count": count, "scale": torch.tensor([1.5, 0.5])},
            "weights": {"head.bias": trajectory.weights["head.bias"]},
        }
        return {"rounds": {"count": count}}, Update(samples, trajectory.weights, state)

    def server_end(self, server, updates, clients):
        scale = sum(float(update.state["values"]["count"]) for update in updates)
        moved = average(updates)
        total = {
            name: value + (moved[name] - server.weights[name]) / scale
            for name, value in server.state["sum"].items()
        }
        return dataclasses.replace(server, weights=moved, state={**server.state, "sum": total})


def test_a_plugins_algorithm_runs_between_sites(small, tmp_path):
    register(Echo)
    experiment = small(algorithm="echo", strategy="random", rounds=2, fl_rounds=3)
    lab, field, sent = run_both(experiment, tmp_path)
    assert_same_server(lab, field)
    assert {tuple(sorted(request.state)) for request, _ in sent} == {("nothing", "request")}
    assert {int(reply.state["values"]["count"]) for _, reply in sent} == {1, 2, 3}


def test_no_noise_covers_what_a_plugin_sends_beside_the_weights(small):
    register(Echo)
    with pytest.raises(ConfigurationError, match="0 with echo"):
        FieldPlan(small(algorithm="echo"), Rules(clip=1.0))


SPOILT = {
    "not finite": ("fednova", {"path": {"length": torch.tensor(torch.nan)}}, "not finite: length"),
    "of no length": ("fednova", {"path": {"length": torch.tensor(0.0)}}, "make the model infinite"),
    "another shape": ("fednova", {"path": {"length": torch.ones(1)}}, "do not fit the model: length"),
    "missing": ("fednova", {}, "other groups of tensors"),
    "one too many": ("fedavg", {"more": {"x": torch.ones(1)}}, "other groups of tensors"),
    "sums of nothing": (
        "ridge",
        {
            "sums": {
                "squares": torch.full((65 * 66 // 2,), -9.0, dtype=torch.double),
                "classes": torch.ones(10, 65, dtype=torch.double),
            }
        },
        "make the model infinite",
    ),
    "of control": ("scaffold", {"control": {"x": torch.ones(1)}}, "missing"),
}


@pytest.mark.parametrize(("algorithm", "state", "reason"), SPOILT.values(), ids=SPOILT)
def test_tensors_of_the_algorithm_are_checked(small, tmp_path, algorithm, state, reason):
    model = "linear" if algorithm == "ridge" else "cnn4"
    experiment = small(algorithm=algorithm, model=model, strategy="random", rounds=1, fl_rounds=1)
    transport = loopback(experiment, tmp_path)

    def spoil(k, request, reply):
        return dataclasses.replace(reply, state=state) if (k, request.kind) == (1, "train") else reply

    transport.tamper = spoil
    plan = FieldPlan(dataclasses.replace(experiment, runs_dir=tmp_path / "coordinator"), Rules())
    result = run_plan(plan, transport, NAMES)
    (dropped,) = json.loads((result.folder / "status.json").read_text())["dropped"]
    assert dropped["what"].startswith("south sent ")
    assert reason in dropped["what"]
    weights = read_checkpoint(result.folder / "checkpoint.pt").server.weights
    assert all(torch.isfinite(value).all() for value in weights.values())
