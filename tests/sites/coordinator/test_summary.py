"""A few numbers of each site: their mean is fixed once, nonsense is dropped, and memories survive restarts."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch

from fedactive.errors import ConfigurationError
from fedactive.laboratory import run as laboratory
from fedactive.query.alike import for_all
from fedactive.query.strategies import auto
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.checks import BadReplyError, read_summary
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.messages import NOT_FINITE, PROBLEMS, Reply, Request
from support.loopback import loopback

NAMES = ["north", "south", "west"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)


def run_with(small, tmp_path, rules=None, **settings):
    experiment = small(**{"strategy": "fairfal", "rounds": 3, "fl_rounds": 2} | settings)
    transport = loopback(experiment, tmp_path)
    plan = FieldPlan(dataclasses.replace(experiment, runs_dir=tmp_path / "field"), Rules(**(rules or {})))
    return experiment, transport, lambda: run_plan(plan, transport, NAMES)


def asked(transport, kind):
    return [(k, request) for k, request in transport.asked if request.kind == kind]


def test_sites_are_asked_once_and_all_are_told_the_mean(small, tmp_path):
    experiment, transport, run = run_with(small, tmp_path)
    said = {}

    def listen(k, request, reply):
        if request.kind == "summary":
            assert reply.values.keys() == {"summary"}
            said[k] = reply.values["summary"]
        return reply

    transport.tamper = listen
    result = run()
    assert [(k, r.al_round) for k, r in asked(transport, "summary")] == [(0, 2), (1, 2), (2, 2)]
    mean = sum(number for (number,) in said.values()) / 3
    told = [r.settings.get("agreed") for _, r in asked(transport, "query")]
    assert told == [None] * 3 + [pytest.approx([mean])] * 6
    state = read_checkpoint(result.folder / "checkpoint.pt")
    assert state.agreed == json.loads((result.folder / "field.json").read_text())["agreed"] == told[-1]
    lab = read_checkpoint(laboratory.run(experiment).folder / "checkpoint.pt")
    assert lab.agreed == pytest.approx(told[-1], rel=1e-4)


def test_sites_may_be_asked_in_each_round_and_before_there_is_a_model(small, tmp_path, monkeypatch):
    """Equal sites share out their choices, as the clients of the laboratory do."""
    experiment, transport, run = run_with(
        small, tmp_path, strategy="auto", first="auto", rounds=2, alpha=100.0
    )
    shared = []
    monkeypatch.setattr(auto, "for_all", lambda *asked: shared.append(asked) or for_all(*asked))
    result = run()
    assert [(count, sites) for count, sites, _ in shared] == [(23, 3)] * 6
    assert [(k, r.al_round) for k, r in asked(transport, "summary")] == [
        (k, r) for r in (1, 2) for k in range(3)
    ]
    told = {r.al_round: r.settings["agreed"] for _, r in asked(transport, "query")}
    decided = json.loads((result.folder / "field.json").read_text())
    assert told == {1: decided["agreed 1"], 2: decided["agreed 2"]}
    assert {len(mean) for mean in told.values()} == {16}
    assert told[1] != told[2]
    assert read_checkpoint(result.folder / "checkpoint.pt").agreed is None
    assert result.accuracy.tolist() == laboratory.run(experiment).accuracy.tolist()


def test_a_site_that_sends_nonsense_is_asked_again_and_nothing_of_it_counts(small, tmp_path):
    _, transport, run = run_with(small, tmp_path)
    spoiled = [math.nan]

    def spoil(k, request, reply):
        if request.kind == "summary" and k == 1 and spoiled:
            return Reply({"summary": [spoiled.pop()]})
        return reply

    transport.tamper = spoil
    result = run()
    assert [k for k, _ in asked(transport, "summary")] == [0, 1, 2, 1]
    (dropped,) = json.loads((result.folder / "status.json").read_text())["dropped"]
    assert dropped["what"] == "south sent a summary that is not finite (summary)"


def test_the_quorum_is_enough_and_the_mean_stays_what_it_was(small, tmp_path):
    """South comes when the mean is fixed: it is told the same."""
    _, transport, run = run_with(small, tmp_path, rules={"quorum": 0.6}, rounds=2)

    def leave(k, request, reply):
        if request.kind == "train" and request.fl_round == 1:
            transport.away = {1}
        if request.kind == "query" and request.al_round == 2:
            transport.away = set()
        return reply

    transport.tamper = leave
    run()
    assert [k for k, _ in asked(transport, "summary")] == [0, 2]
    told = {str(r.settings["agreed"]) for _, r in asked(transport, "query") if r.al_round == 2}
    assert len(told) == 1


def test_nobody_waits_for_a_site_that_is_away_where_the_mean_is_another_in_each_round(small, tmp_path):
    """South is away when the second round begins; the others choose and label at once."""
    _, transport, run = run_with(small, tmp_path, strategy="auto", rounds=2)
    order = []

    def leave(k, request, reply):
        order.append((request.kind, k, request.al_round))
        if request.kind == "train" and request.fl_round == 1:
            transport.away = {1}
        if len([kind for kind, _, r in order if (kind, r) == ("query", 2)]) == 2:
            transport.away = set()
        return reply

    transport.tamper = leave
    run()
    second = [(kind, k) for kind, k, r in order if r == 2 and kind in ("summary", "query")]
    assert second == [("summary", 0), ("summary", 2), ("query", 0), ("query", 2), ("query", 1)]
    # The mean of two is not that of all, and that of one would be its own: then all choose for themselves.
    assert all("agreed" not in r.settings for _, r in asked(transport, "query") if r.al_round == 2)


class Killed(BaseException):
    """As if the coordinator were killed."""


def test_a_coordinator_that_is_killed_after_it_has_asked_tells_the_same_mean(small, tmp_path):
    _, transport, run = run_with(small, tmp_path)

    def kill(k, request, reply):
        if request.kind == "query" and request.al_round == 2 and k == 1:
            raise Killed
        return reply

    transport.tamper = kill
    with pytest.raises(Killed):
        run()
    first = asked(transport, "query")[-1][1].settings["agreed"]
    transport.tamper = lambda k, request, reply: reply
    run()
    assert len(asked(transport, "summary")) == 3
    assert asked(transport, "query")[-1][1].settings["agreed"] == first


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([0.5], "not of 2 numbers"),
        ([0.5, 0.5, 0.5], "not of 2 numbers"),
        (0.5, "not of 2 numbers"),
        ([1, 2], "not finite"),
        ([0.5, math.inf], "not finite"),
    ],
)
def test_a_summary_is_as_many_finite_numbers_as_were_asked_for(values, reason):
    with pytest.raises(BadReplyError, match=reason):
        read_summary(Reply({"summary": values}), 2)
    assert read_summary(Reply({"summary": [0.5, 2.0]}), 2) == [0.5, 2.0]
    assert read_summary(Reply({}), 2) is None


@pytest.mark.parametrize("agreed", [[math.nan], [0.5, 0.5], []])
def test_a_site_refuses_a_mean_that_cannot_be_one(small, tmp_path, agreed):
    _, transport, run = run_with(small, tmp_path, rounds=2)
    run()
    request = dataclasses.replace(asked(transport, "query")[-1][1], al_round=3)
    request = dataclasses.replace(request, settings=request.settings | {"agreed": agreed})
    reply = transport.trainers[0].answer(request)
    assert PROBLEMS[reply.problem - 1] == NOT_FINITE


# --- what a site remembers


@pytest.mark.parametrize("strategy", ["tmfal", "chase", "ksas"])
def test_sites_that_are_restarted_after_every_answer_choose_the_same(small, tmp_path, strategy):
    experiment, transport, run = run_with(small, tmp_path, strategy=strategy, local_epochs=2, fl_rounds=3)

    def restart(k, request, reply):
        assert not {"summary", "agreed"} & (reply.values.keys() | request.settings.keys())
        transport.trainers[k].close()
        return reply

    transport.tamper = restart
    result = run()
    lab = laboratory.run(experiment)
    ours, theirs = (read_checkpoint(r.folder / "checkpoint.pt").server.weights for r in (result, lab))
    for key, value in theirs.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-4, atol=1e-5)


def test_a_training_that_is_asked_for_twice_is_remembered_once(small, tmp_path):
    """Also if the site was killed between writing what it remembers and what it sent."""
    _, transport, run = run_with(small, tmp_path, strategy="tmfal", rounds=1, fl_rounds=3)
    run()
    trainer = transport.trainers[0]
    (k, last) = asked(transport, "train")[-3]
    assert k == 0
    memory = trainer.site_run.read_memory(1)
    (trainer.site_run.folder / "training.pt").unlink()
    assert isinstance(last, Request)
    assert trainer.answer(last).problem == 0
    again = trainer.site_run.read_memory(1)
    assert sorted(again.committee) == sorted(memory.committee) == [0, 2]
    assert torch.equal(again.committee[2][1]["head.weight"], memory.committee[2][1]["head.weight"])
    assert trainer.site_run.read_memory(2).committee == {}


def test_nothing_is_kept_for_a_strategy_that_does_not_ask(small, tmp_path):
    *_, run = run_with(small, tmp_path, strategy="entropy", rounds=1)
    run()
    assert not list(tmp_path.rglob("memory.pt"))


def test_dropout_is_refused_in_the_plan_for_a_model_without(small, tmp_path):
    with pytest.raises(ConfigurationError, match="which has none"):
        run_with(small, tmp_path, strategy="bald", strategy_options="samples=dropout")
