"""A site that wants to spoil the model, with updates that pass every check."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.coordinator.status import read_status
from support.loopback import loopback

NAMES = ["north", "south", "west"]
MALICIOUS = 2


@pytest.fixture
def attacked(small, tmp_path, monkeypatch):
    """A run in which the last site changes its replies; `attack` returns the changed one."""
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)

    def run(attack, name="attacked", rules=None, **changes):
        experiment = small(runs_dir=tmp_path / name / "coordinator", **changes)
        transport = loopback(experiment, tmp_path / name)
        transport.tamper = lambda k, request, reply: attack(request, reply) if k == MALICIOUS else reply
        result = run_plan(FieldPlan(experiment, Rules(**rules or {})), transport, NAMES)
        dropped = [item["what"] for item in read_status(result.folder).dropped]
        return result, read_checkpoint(result.folder / "checkpoint.pt").server.weights, dropped

    return run


def claiming(kind, **values):
    def attack(request, reply):
        return dataclasses.replace(reply, values=reply.values | values) if request.kind == kind else reply

    return attack


def honest(request, reply):
    return reply


def test_a_site_weighs_as_much_as_it_was_seen_to_label(attacked):
    """One that claims 2^39 samples changes not a bit."""
    changes = {"rounds": 1, "fl_rounds": 2, "strategy": "random"}
    _, expected, _ = attacked(honest, "honest", **changes)
    _, weights, _ = attacked(claiming("train", samples=2**39), **changes)
    assert all(torch.equal(weights[name], value) for name, value in expected.items())


def test_a_site_cannot_claim_more_labels_than_it_was_asked_for(attacked):
    rules = {"quorum": 0.6}
    result, _, dropped = attacked(
        claiming("query", labelled_in_all=2**39), rules=rules, rounds=1, fl_rounds=1, strategy="random"
    )
    assert result.selections["client"].unique().tolist() == [0, 1]
    assert dropped
    assert all("west counts more images than the" in what for what in dropped)


def ruin(when):
    """An update of a random model, as large as the checks let pass."""

    def attack(request, reply):
        if request.kind != "train" or request.fl_round != when:
            return reply
        rng = torch.Generator().manual_seed(1)
        moved = {
            name: w
            + 3 * w.norm() * torch.nn.functional.normalize(torch.randn(w.shape, generator=rng), dim=None)
            if name.endswith(("weight", "bias"))
            else w
            for name, w in reply.weights.items()
        }
        return dataclasses.replace(reply, weights=moved)

    return attack


LONG = {"rounds": 1, "fl_rounds": 8, "strategy": "random", "lr": 0.1, "budget": 20}


def test_a_run_goes_back_to_the_best_model_when_the_accuracy_collapses(attacked):
    _, _, nothing = attacked(honest, "honest", **LONG)
    assert nothing == []
    result, _, dropped = attacked(ruin(6), **LONG)
    assert len(dropped) == 1
    assert "the model of AL round 1, FL round 7: its accuracy fell from" in dropped[0]
    accuracy = result.metrics.query("model == 'global'").set_index("fl_round")["accuracy"]
    assert accuracy[7] == accuracy[:6].max() > 0.4  # that of the model which is kept
    assert accuracy[8] > 0.8 * accuracy[7]


def test_without_going_back_the_model_is_ruined(attacked):
    result, _, _ = attacked(ruin(7), rules={"collapse": 1.0}, **LONG)
    accuracy = result.metrics.query("model == 'global'").set_index("fl_round")["accuracy"]
    assert accuracy[8] < 0.5 * accuracy[:7].max()


@pytest.mark.parametrize("aggregation", ["median", "clipped-mean"])
def test_robust_aggregation_withstands_it(attacked, aggregation):
    result, _, dropped = attacked(ruin(7), algorithm_options=f"aggregation={aggregation}", **LONG)
    accuracy = result.metrics.query("model == 'global'").set_index("fl_round")["accuracy"]
    assert accuracy[8] > 0.8 * accuracy[7]
    assert dropped == []
