"""Every algorithm keeps the contract, the one that the document shows too; and it runs everywhere."""

from dataclasses import dataclass, replace

import pytest
import torch

from fedactive.errors import ConfigurationError, UserError
from fedactive.experiment import Experiment
from fedactive.federated import ALGORITHMS, Algorithm, ClosedForm, Server, Update, average, register
from fedactive.federated.contract import check_algorithm, require_form
from fedactive.laboratory.run import run
from fedactive.registry import load_plugin
from support.documents import plugin_from


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_keeps_the_contract(name):
    check_algorithm(ALGORITHMS.make(name))


@pytest.mark.parametrize("name", ["fednova", "fedadam", "fedavgm"])
def test_engines_and_resumption_agree_on_every_algorithm(name, small, tmp_path):
    """Sequential and parallel, in one go and in two: the same numbers."""
    whole = run(small(algorithm=name, strategy="random", rounds=2, runs_dir=tmp_path / "a"))
    apart = small(algorithm=name, strategy="random", rounds=1, workers=2, runs_dir=tmp_path / "b")
    run(apart)
    resumed = run(replace(apart, rounds=2))
    assert whole.metrics.equals(resumed.metrics)
    assert whole.metrics["loss"].notna().all()


def test_the_documents_example(small, tmp_path):
    load_plugin(plugin_from("ALGORITHMS.md", tmp_path))
    check_algorithm(ALGORITHMS.make("fedema", "decay=0.3"))
    result = run(small(algorithm="fedema", algorithm_options="decay=0.3", rounds=2))
    assert result.metrics.notna()["accuracy"].all()
    with pytest.raises(
        ConfigurationError, match=r"algorithm_options: decay: 2.0 was given, allowed is a number"
    ):
        small(algorithm="fedema", algorithm_options="decay=2")


def test_a_changed_algorithm_does_not_go_on_with_the_old_ones_run(small, tmp_path):
    file = plugin_from("ALGORITHMS.md", tmp_path)
    load_plugin(file)
    run(small(algorithm="fedema", rounds=1))
    file.write_text(file.read_text().replace("1 - self.decay", "2 - self.decay"))
    load_plugin(file)
    with pytest.raises(UserError, match="algorithm fedema is not the same as when"):
        run(small(algorithm="fedema", rounds=2))


@dataclass(frozen=True)
class Broken(Algorithm):
    name, summary, paper = "broken", "", ""
    how: str = ""

    def start(self, weights, parameters):
        return {"m": {"w": torch.zeros(2)}} if self.how == "a group grows" else {}

    def client_start(self, server):
        return {"own": {"n": torch.zeros(1)}} if self.how == "own state changes" else {}

    def client_end(self, server, own, trajectory, samples):
        if self.how == "own state changes":
            own["own"]["n"] += 1
        if self.how == "an update lacks a weight" and samples > 5:
            return own, Update(samples, {"head.bias": trajectory.weights["head.bias"]})
        more = {"more": {}} if self.how == "an update grows" and samples > 5 else {}
        return own, Update(samples + (self.how == "samples"), trajectory.weights, more)

    def server_end(self, server: Server, updates, clients):
        match self.how:
            case "the last one wins":
                return replace(server, weights=updates[-1].weights)
            case "a weight is lost":
                return replace(server, weights={"head.bias": updates[0].weights["head.bias"]})
            case "state grows":
                return replace(server, weights=average(updates), state={"more": {}})
            case "a weight more":
                return replace(server, weights=average(updates) | {"more": torch.zeros(1)})
            case "an update lacks a weight":
                return server
            case "a group grows":
                m = torch.zeros(len(server.state["m"]["w"]) + 1)
                return replace(server, weights=average(updates), state={"m": {"w": m}})
            case "random":
                noise = {name: value + torch.randn(value.shape) for name, value in server.weights.items()}
                return replace(server, weights=noise)
        return replace(server, weights=average(updates))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("own state changes", "client_end changes what it is given"),
        ("samples", "an update counts"),
        ("the last one wins", "the order of updates matters"),
        ("a weight is lost", "layer.weight|norm.running_var"),
        ("state grows", "has the groups"),
        ("an update lacks a weight", "an update's weights have other names"),
        ("an update grows", r"an update has the groups \['more'\], before \[\]"),
        ("a weight more", "the server's weights have other names than before"),
        ("a group grows", "the server's m have another shape or type than before: w"),
    ],
)
def test_what_an_algorithm_breaks_is_named(how, reason):
    with pytest.raises((AssertionError, KeyError), match=reason):
        check_algorithm(Broken(how))


@dataclass(frozen=True)
class BrokenSums(ClosedForm):
    name, summary, paper = "broken", "", ""
    how: str = ""

    def add_up(self, embeddings, labels, classes):
        if self.how == "an update grows" and len(labels):
            return {"more": {}}
        return {"sums": {"x": embeddings if self.how == "samples travel" else embeddings.sum(0)}}

    def summarise(self, server: Server, embeddings, labels):
        update = super().summarise(server, embeddings, labels)
        return replace(update, weights={"w": embeddings}) if self.how == "weights travel" else update

    def server_end(self, server: Server, updates, clients):
        sums = [update.state["sums"]["x"] for update in updates]
        total = sums[0] if self.how == "one client alone counts" else torch.stack(sums).sum(0)
        if self.how == "the order counts" and updates[0].samples == 7:  # the last of three
            total = 2 * total
        head = {"head.weight": total.expand(3, 4).clone()}
        return replace(
            server,
            weights=head if self.how == "a weight is lost" else server.weights | head,
            state={"more": {}} if self.how == "state grows" else server.state,
        )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("one client alone counts", "head.weight depends on who has which samples"),
        ("the order counts", "head.weight depends on who has which samples"),
        ("an update grows", r"an update has the groups \['more'\], before \['sums'\]"),
        ("samples travel", "an update's sums have another shape or type than before: x"),
        ("weights travel", "an update's weights have another shape or type than before: w"),
        ("a weight is lost", "the server's weights have other names than before"),
        ("state grows", r"the server has the groups \['more'\], before \[\]"),
    ],
)
def test_what_sums_break_is_named(how, reason):
    check_algorithm(BrokenSums())
    with pytest.raises((AssertionError, KeyError), match=reason):
        check_algorithm(BrokenSums(how))


@pytest.mark.parametrize("other", [torch.zeros(3), torch.zeros(2, dtype=torch.float64)])
def test_shapes_and_types_both_count(other):
    require_form("weights", {"w": torch.ones(2)}, {"w": torch.zeros(2)})
    with pytest.raises(AssertionError, match="weights have another shape or type than before: w"):
        require_form("weights", {"w": other}, {"w": torch.zeros(2)})


def test_names_of_ours_are_taken_and_parts_must_be_there():
    with pytest.raises(UserError, match="algorithm fedavg comes with fedactive"):
        register(type("Mine", (Broken,), {"name": "fedavg"}))
    with pytest.raises(UserError, match="algorithm Bare lacks name, summary, paper, server_end"):
        register(type("Bare", (Algorithm,), {}))
    with pytest.raises(ConfigurationError, match=r"algorithm: 'fedavgg' .*did you mean 'fedavg'"):
        Experiment(algorithm="fedavgg")
