"""The sites as a federation, in one process: the same numbers as the laboratory, whatever goes wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import numpy as np
import pytest
import torch

from fedactive.analysis.curves import learning_curves
from fedactive.analysis.report import write_report
from fedactive.data.budget import budgets_per_client
from fedactive.errors import RunError
from fedactive.laboratory import run as laboratory
from fedactive.laboratory.split import split
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.messages import FAILED, OTHER_VERSION, PROBLEMS, VERSION, Reply, Request
from support.loopback import Unchanging, held, loopback, site_selections

NAMES = ["north", "south", "west"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)


def plan_of(experiment, tmp_path, **rules):
    experiment = dataclasses.replace(experiment, runs_dir=tmp_path / "coordinator")
    return FieldPlan(experiment, Rules(**rules))


def weights_of(folder):
    return read_checkpoint(folder / "checkpoint.pt").server.weights


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": "logo", "algorithm": "fedavg"},
        {"strategy": "entropy", "selector": "local", "algorithm": "scaffold"},
        {"strategy": "badge", "algorithm": "fedprox", "init": "continue", "participation": 0.7},
        {"strategy": "tmfal", "participation": 0.7},
        {"strategy": "chase", "local_epochs": 3, "algorithm": "scaffold"},
        {"strategy": "ksas", "participation": 0.4},
        {"strategy": "fairfal"},
    ],
    ids=lambda changes: changes["strategy"],
)
def test_sites_give_the_laboratorys_numbers(small, digits, tmp_path, changes):
    experiment = small(**changes)
    lab = laboratory.run(experiment)
    transport = loopback(experiment, tmp_path)
    result = run_plan(plan_of(experiment, tmp_path), transport, NAMES)

    pools = split(experiment, digits.train_labels, 10).pools
    run = json.loads((result.folder / "field.json").read_text())["run"]
    for k, trainer in enumerate(transport.trainers):
        mine = lab.selections[lab.selections["client"] == k]
        for r, samples in enumerate(site_selections(trainer, run, experiment.rounds), start=1):
            assert pools[k][samples].tolist() == mine[mine["al_round"] == r]["sample"].tolist()
    theirs, ours = weights_of(lab.folder), weights_of(result.folder)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-5)
    for column in ("labelled", "accuracy", "loss"):
        a, b = (t.metrics[t.metrics["model"] == "global"][column].to_numpy(float) for t in (lab, result))
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_a_run_of_the_field_can_be_reported(small, tmp_path):
    experiment = small(rounds=2, fl_rounds=3, strategy="entropy")
    transport = loopback(experiment, tmp_path)
    result = run_plan(plan_of(experiment, tmp_path, evaluate_every=2), transport, NAMES)
    assert result.metrics.query("model == 'global'")["fl_round"].tolist() == [2, 3, 2, 3]
    assert set(result.selections["sample"]) == set(result.selections["label"]) == {-1}
    assert not write_report([result.folder], tmp_path / "report.html", None).skipped
    page = (tmp_path / "report.html").read_text()
    assert "fl_rounds = 3" in page
    unasked = (
        "alpha",
        "rho",
        "partition",
        "test_share",
        "scored_images",
        "dataset_sha256",
        "image_size",
        "track",
    )
    for word in ("nan%", *(mark for name in unasked for mark in (f"{name} = ", f">{name}<"))):
        assert word not in page


def test_the_accuracy_of_a_round_is_that_of_its_last_five_fl_rounds_however_few_were_measured(
    small, tmp_path
):
    experiment = small(rounds=1, fl_rounds=9, strategy="random", lr=0.1)
    transport = loopback(experiment, tmp_path)
    result = run_plan(plan_of(experiment, tmp_path, evaluate_every=4), transport, NAMES)
    measured = result.metrics.query("model == 'global'").set_index("fl_round")["accuracy"]
    assert measured.index.tolist() == [4, 8, 9]
    assert measured[4] != measured[[8, 9]].mean()
    assert result.accuracy[1] == pytest.approx(measured[[8, 9]].mean())
    assert learning_curves([result.folder])["accuracy"].tolist() == pytest.approx([100 * result.accuracy[1]])


def test_a_run_without_test_images_works_and_its_accuracy_is_unknown(small, tmp_path):
    transport, run = run_with(small, tmp_path, rounds=1)
    for trainer in transport.trainers:
        there = trainer.images.held
        trainer.images = Unchanging(held(there.images, there.test_images[:0], there.test_labels[:0]))
    result = run()
    assert result.accuracy.isna().all()
    assert not write_report([result.folder], tmp_path / "report.html", None).skipped
    assert "The accuracy is unknown" in (tmp_path / "report.html").read_text()


# ------------------------------------------------------------------------------------ sites come and go


def run_with(small, tmp_path, transport=None, rules=None, dismissed=set, **changes):
    experiment = small(**({"rounds": 2, "fl_rounds": 2, "strategy": "random"} | changes))
    transport = transport or loopback(experiment, tmp_path)
    plan = plan_of(experiment, tmp_path, **(rules or {}))
    return transport, lambda: run_plan(plan, transport, NAMES, dismissed)


def status_of(result):
    return json.loads((result.folder / "status.json").read_text())


def test_a_site_that_drops_out_is_left_out_and_comes_back(small, tmp_path):
    transport, run = run_with(small, tmp_path, fl_rounds=3)

    def leave_for_a_round(k, request, reply):
        if request.kind == "train" and request.al_round == 1:
            transport.away = {1} if request.fl_round == 0 else set()
        return reply

    transport.tamper = leave_for_a_round
    assert run().accuracy.notna().all()
    rounds = [(q.al_round, q.fl_round) for k, q in transport.asked if k == 1 and q.kind == "train"]
    assert (1, 1) not in rounds
    assert (1, 2) in rounds


def test_a_site_that_is_away_is_asked_when_it_comes_back(small, tmp_path):
    transport, run = run_with(small, tmp_path)
    transport.away = {2}

    def come_back(k, request, reply):
        if request.kind == "hello":
            transport.away = set()
        if request.kind == "query" and request.al_round == 2 and k == 0:
            transport.away = {2}
        if request.kind == "label_status":
            transport.away = set()
        return reply

    transport.tamper = come_back
    result = run()
    assert result.metrics["labelled"].max() == 6 * transport.trainers[0].site_run.client.budgets[0]


def test_nobody_waits_for_a_site_that_was_dismissed_before_it_ever_came(small, tmp_path):
    transport, run = run_with(small, tmp_path, dismissed=lambda: {1}, rounds=1)
    transport.away = {1}
    result = run()
    assert result.selections["client"].unique().tolist() == [0, 2]
    decided = json.loads((result.folder / "field.json").read_text())
    assert decided["images"][1] == 0
    images = decided["images"][0] + decided["images"][2]
    assert decided["budget"] == list(budgets_per_client(images, 2, 5))  # the others share it
    assert status_of(result)["sites"]["south"]["dismissed"]


@pytest.mark.parametrize("kind", ["hello", "query", "label_status", "train"])
def test_a_run_goes_on_without_a_site_that_is_dismissed_meanwhile(small, tmp_path, kind):
    """In the middle of things, when the rules would have everybody wait for it."""
    gone = set()
    rules = {"minimum_sites": 3, "quorum": 1}
    transport, run = run_with(small, tmp_path, rules=rules, dismissed=lambda: gone)
    transport.annotators[1].busy = kind not in ("query", "label_status")

    def lose(k, request, reply):
        assert k not in gone  # nobody asks it any more
        if k == 1 and request.kind == kind:
            gone.add(1)
            return None
        return reply

    transport.tamper = lose
    result = run()
    assert result.metrics["al_round"].max() == 2
    labels = result.selections.groupby("client").size()
    assert labels[0] == labels[2]
    assert labels.get(1, 0) == (labels[0] // 2 if kind == "train" else 0)


def test_what_a_dismissed_site_has_labelled_ends_no_round(small, tmp_path):
    gone = set()
    transport, run = run_with(small, tmp_path, dismissed=lambda: gone, rounds=1)
    late = transport.annotators[0]
    late.busy = False

    def dismiss(k, request, reply):
        if request.kind == "label_status" and k == 0:
            late.busy = bool(gone)
        if request.kind == "label_status" and k == 1 and not reply.values["pending"]:
            gone.add(1)
        return reply

    transport.tamper = dismiss
    assert run().selections["client"].unique().tolist() == [0, 2]


def test_a_run_whose_sites_were_all_dismissed_ends(small, tmp_path):
    _, run = run_with(small, tmp_path, dismissed=lambda: {0, 1, 2})
    with pytest.raises(RunError, match="all sites of this run were dismissed"):
        run()


def test_without_enough_sites_a_round_waits(small, tmp_path):
    transport, run = run_with(small, tmp_path, rules={"minimum_sites": 3})
    lost = []

    def lose_one_update(k, request, reply):
        if request.kind == "train" and k == 0 and not lost:
            lost.append(request)
            return None
        return reply

    transport.tamper = lose_one_update
    run()
    again = [q for k, q in transport.asked if k == 0 and q.kind == "train"][:2]
    assert [(q.al_round, q.fl_round) for q in again] == [(1, 0), (1, 0)]


def test_a_budget_in_labels_and_a_strategy_for_the_first_round(small, digits, tmp_path):
    """As in the laboratory: so many at each site, and the first ones are chosen, too."""
    experiment = small(rounds=2, fl_rounds=1, strategy="random", first="medoids", budget="7/client")
    transport = loopback(experiment, tmp_path)
    result = run_plan(plan_of(experiment, tmp_path), transport, NAMES)
    assert result.selections.groupby(["al_round", "client"]).size().tolist() == [7] * 6
    asked = [trainer.site_run.queries.find(1) for trainer in transport.trainers]
    assert [query["strategy"] for query in asked] == ["medoids"] * 3
    inside = laboratory.run(experiment).selections
    pools = split(experiment, digits.train_labels, 10).pools
    for k, query in enumerate(asked):
        mine = inside[(inside["al_round"] == 1) & (inside["client"] == k)]["sample"]
        assert sorted(pools[k][query["samples"]]) == sorted(mine)


def test_a_budget_that_grows(small, tmp_path):
    experiment = small(rounds=3, fl_rounds=1, strategy="random", budget="2+3+6/client")
    result = run_plan(plan_of(experiment, tmp_path), loopback(experiment, tmp_path), NAMES)
    assert result.selections.groupby(["al_round", "client"]).size().tolist() == [2] * 3 + [3] * 3 + [6] * 3
    decided = json.loads((result.folder / "field.json").read_text())
    assert decided["budget"] == [2, 3, 6]


def test_a_run_of_an_earlier_version_decided_one_number(tmp_path):
    (tmp_path / "field.json").write_text('{"run": "older", "opened": {}, "budget": 7, "images": [70, 70]}')
    assert Journal(tmp_path, ["a", "b"]).budgets == (7,)


# ------------------------------------------------------------------------------------- the end of a round


def test_a_quorum_ends_a_round_and_late_labels_count_from_the_next(small, tmp_path):
    transport, run = run_with(small, tmp_path, rules={"quorum": 0.6})
    transport.annotators[0].busy = False

    def wake_up(k, request, reply):
        if request.kind == "train":
            transport.annotators[0].busy = True
            transport.annotators[0].work("late")
        return reply

    transport.tamper = wake_up
    result = run()
    budget = transport.trainers[0].site_run.client.budgets[0]
    by_round = result.selections.groupby(["al_round", "client"]).size()
    assert by_round.get((1, 0), 0) == 0
    assert by_round[2, 0] == 2 * budget
    assert by_round[1, 1] == budget


def test_labels_that_change_during_training_count_from_the_next_round(small, tmp_path):
    experiment = small(rounds=1, fl_rounds=3, strategy="random")
    smooth = run_plan(plan_of(experiment, tmp_path / "a"), loopback(experiment, tmp_path / "a"), NAMES)
    transport = loopback(experiment, tmp_path / "b")

    def change_of_mind(k, request, reply):
        if request.kind == "train" and request.fl_round == 0:
            store = transport.annotators[k].store
            for sample, label in store.labels().items():
                store.answers.record(store.annotators.find("ada"), sample, "label", (label + 1) % 10)
        return reply

    transport.tamper = change_of_mind
    changed = run_plan(plan_of(experiment, tmp_path / "b"), transport, NAMES)
    for name, value in weights_of(smooth.folder).items():
        assert torch.equal(weights_of(changed.folder)[name], value)


def test_a_deadline_ends_a_round(small, tmp_path):
    transport, run = run_with(small, tmp_path, rules={"deadline": 1e-9})
    transport.annotators[0].busy = False
    assert run().selections["client"].unique().tolist() == [1, 2]


def test_sites_know_which_round_is_the_last_even_if_the_plan_changes_meanwhile(small, tmp_path):
    def ends(k, request, reply):
        if request.kind == "train":
            raise KeyboardInterrupt
        return reply

    def planned():
        return [trainer.store.rounds.current().planned for trainer in transport.trainers]

    transport, run = run_with(small, tmp_path, rounds=2)
    transport.tamper = ends
    with pytest.raises(KeyboardInterrupt):
        run()
    assert planned() == [2, 2, 2]
    transport.tamper = lambda k, request, reply: reply
    _, run = run_with(small, tmp_path, transport, rounds=1)  # shortened when all had labelled
    run()
    assert planned() == [1, 1, 1]
    told = []
    transport.tamper = lambda k, request, reply: told.append(planned()[k]) or reply
    _, run = run_with(small, tmp_path, transport, rounds=3)  # prolonged after its end
    run()
    assert set(told) == {3}  # from the first request on


def test_a_run_that_goes_on_although_a_site_closed_it_has_all_its_rounds_there(small, tmp_path):
    transport, run = run_with(small, tmp_path)
    site, planned = transport.trainers[0].store, []
    transport.annotators[0].busy = False

    def close_and_come_back(k, request, reply):
        if k == 0 and request.kind == "query" and request.al_round == 1:
            site.rounds.close_run(request.run)
            planned.append(site.rounds.current().planned)
        elif k == 0 and request.kind == "label_status" and request.al_round == 1:
            planned.append(site.rounds.current().planned)
            transport.annotators[0].busy = True
            transport.annotators[0].work("late")
        return reply

    transport.tamper = close_and_come_back
    run()
    assert planned[:2] == [1, 2]


def test_skipping_is_an_answer_at_one_site(small, tmp_path):
    transport, run = run_with(small, tmp_path, strategy="logo")
    transport.annotators[0].skips = True
    result = run()
    assert result.selections["client"].unique().tolist() == [1, 2]
    assert result.accuracy.notna().all()
    first, second = (transport.trainers[0].site_run.queries.find(r)["samples"] for r in (1, 2))
    assert not set(first) & set(second)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_a_round_in_which_everybody_skips_everything_ends(small, tmp_path, algorithm):
    transport, run = run_with(small, tmp_path, strategy="logo", algorithm=algorithm)
    for annotator in transport.annotators:
        annotator.skips = True

    def think_again(k, request, reply):
        transport.annotators[k].skips = request.al_round == 1
        return reply

    transport.tamper = think_again
    result = run()
    assert result.selections["al_round"].unique().tolist() == [2]
    assert result.metrics.query("model == 'global' and al_round == 1")["labelled"].eq(0).all()
    assert sorted(result.selections["client"].unique()) == [0, 1, 2]


def test_a_deadline_does_not_end_a_round_without_a_label(small, tmp_path):
    transport, run = run_with(small, tmp_path, rules={"deadline": 1e-9, "quorum": 0.3}, rounds=1)
    transport.annotators[0].skips = True
    for annotator in transport.annotators[1:]:
        annotator.busy = False

    def come_back_later(k, request, reply):
        transport.annotators[1].busy |= len(transport.asked) > 15
        return reply

    transport.tamper = come_back_later
    assert run().selections["client"].unique().tolist() == [1]


# ----------------------------------------------------------------------------------------- bad replies


BAD = {
    "not finite": (lambda w: w["head.bias"].fill_(torch.nan), "weights that are not finite: head.bias"),
    "far away": (lambda w: w["head.weight"].add_(1e6), "away from the model"),
    "a weight is missing": (lambda w: w.pop("head.bias"), "do not fit the model: head.bias"),
    "another shape": (lambda w: w.update({"head.bias": torch.zeros(3)}), "do not fit the model: head.bias"),
    "another type": (
        lambda w: w.update({"head.bias": w["head.bias"].double()}),
        "do not fit the model: head.bias",
    ),
}


@pytest.mark.parametrize(("spoil", "reason"), BAD.values(), ids=BAD)
def test_a_bad_update_is_dropped_with_its_reason(small, tmp_path, spoil, reason):
    transport, run = run_with(small, tmp_path, rounds=1, fl_rounds=1)

    def spoiled(k, request, reply):
        if request.kind == "train" and k == 1:
            weights = {name: value.clone() for name, value in reply.weights.items()}
            spoil(weights)
            return dataclasses.replace(reply, weights=weights)
        return reply

    transport.tamper = spoiled
    result = run()
    (dropped,) = status_of(result)["dropped"]
    assert dropped["what"].startswith("south sent ")
    assert reason in dropped["what"]
    weights = read_checkpoint(result.folder / "checkpoint.pt").server.weights
    assert all(torch.isfinite(value).all() for value in weights.values())


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"requested": -1},
        {"labelled_in_all": True},
        {"pending": 1.5},
        {"tested": [1]},
        {"predicted": [0] * 10},
        {"loss": float("nan")},
    ],
    ids=str,
)
def test_no_reply_crashes_the_run(small, tmp_path, values):
    transport, run = run_with(small, tmp_path, rules={"quorum": 0.6}, rounds=1, fl_rounds=1)

    def nonsense(k, request, reply):
        if k == 1 and request.kind in ("query", "label_status", "evaluate"):
            return dataclasses.replace(reply, values=reply.values | values if values else {}, weights={})
        return reply

    transport.tamper = nonsense
    result = run()
    assert result.accuracy.notna().all()
    assert all(item["what"].startswith("south ") for item in status_of(result)["dropped"])


# -------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize(
    ("algorithm", "stop_at"), [("fedavg", 3), ("scaffold", 8), ("scaffold", 12), ("fedavg", 17)]
)
def test_a_coordinator_that_stops_anywhere_goes_on_as_if_it_never_had(small, tmp_path, algorithm, stop_at):
    experiment = small(rounds=2, fl_rounds=3, strategy="logo", algorithm=algorithm)
    smooth = run_plan(plan_of(experiment, tmp_path / "a"), loopback(experiment, tmp_path / "a"), NAMES)

    transport = loopback(experiment, tmp_path / "b")
    plan = plan_of(experiment, tmp_path / "b")

    def stop(k, request, reply):
        if len(transport.asked) == stop_at:
            raise KeyboardInterrupt
        return reply

    transport.tamper = stop
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, transport, NAMES)
    # The sites, too, have been started anew meanwhile.
    fresh = loopback(experiment, tmp_path / "b")
    resumed = run_plan(plan, fresh, NAMES)
    for name, value in weights_of(smooth.folder).items():
        assert torch.equal(weights_of(resumed.folder)[name], value)
    assert resumed.accuracy.tolist() == smooth.accuracy.tolist()


# ---------------------------------------------------------------------------------------- what sites refuse


def run_settings(experiment, card):
    numbers = {"client": 0, "budget": [5], "clip": 0.0, "noise": 0.0}
    return {"experiment": experiment.to_toml(), "images": card, **numbers}


def test_a_site_with_other_classes_says_so(small, tmp_path):
    transport, run = run_with(small, tmp_path)
    transport.trainers[1].classes = ("cat", "dog")

    def give_up(k, request, reply):
        if len(transport.asked) > 6:
            raise KeyboardInterrupt
        return reply

    transport.tamper = give_up
    with pytest.raises(KeyboardInterrupt):
        run()
    (folder,) = (tmp_path / "coordinator").glob("digits-*")
    dropped = json.loads((folder / "status.json").read_text())["dropped"]
    assert dropped[0]["what"] == "south has other classes than the coordinator (hello)"


@pytest.mark.parametrize("run", ["../../escape", "", "a/b", "x" * 200])
def test_the_name_of_a_run_cannot_lead_out_of_the_sites_folder(small, tmp_path, run):
    experiment = small()
    trainer = loopback(experiment, tmp_path).trainers[0]
    card = {"name": "digits", "classes": list(trainer.classes), "channels": 1, "size": 8}
    settings = {"run": run_settings(experiment, card)}
    reply = trainer.answer(Request("hello", run, settings=settings))
    assert PROBLEMS[reply.problem - 1] == OTHER_VERSION
    assert not (tmp_path / "escape").exists()


def test_a_coordinator_cannot_find_out_which_files_a_site_has(small, tmp_path):
    experiment = small()
    trainer = loopback(experiment, tmp_path).trainers[0]
    there, missing = tmp_path / "patients.npz", tmp_path / "nobody.npz"
    np.savez(there, train_images=np.zeros((3, 8, 8), np.uint8), train_labels=np.arange(3))
    content = hashlib.sha256(there.read_bytes()).hexdigest()[:12]
    card = {"name": "digits", "classes": list(trainer.classes), "channels": 1, "size": 8}
    replies = []
    for path, sha256 in ((there, ""), (there, content), (there, "0" * 12), (missing, "")):
        settings = run_settings(experiment, card)
        settings["experiment"] = f'dataset = "{path}"\ndataset_sha256 = "{sha256}"\nrounds = 2\n'
        replies.append(trainer.answer(Request("hello", "run", settings={"run": settings})))
    assert replies == [Reply({"version": VERSION}, problem=1 + PROBLEMS.index(OTHER_VERSION))] * 4


def test_a_failure_at_a_site_names_nothing(small, tmp_path, caplog):
    experiment = small()
    trainer = loopback(experiment, tmp_path).trainers[0]

    def broken(card):
        raise OSError("cannot read /data/patients/doe-john.png")

    trainer.images.read_holdings = broken
    card = {"name": "digits", "classes": list(trainer.classes), "channels": 1, "size": 8}
    settings = {"run": run_settings(experiment, card)}
    reply = trainer.answer(Request("hello", "run", settings=settings))
    assert reply == Reply({"version": VERSION}, problem=1 + PROBLEMS.index(FAILED))
    assert "doe-john" in caplog.text  # here, where it helps


def test_a_run_that_cannot_be_opened_does_not_harm_the_one_before(small, tmp_path):
    experiment = small()
    trainer = loopback(experiment, tmp_path).trainers[0]
    card = {"name": "digits", "classes": list(trainer.classes), "channels": 1, "size": 8}
    settings = {"run": run_settings(experiment, card)}
    hello, query = Request("hello", "one", settings=settings), {"deadline": 0.0, "overlap": 1}
    assert trainer.answer(hello).problem == 0
    there, trainer.images = trainer.images, None
    assert PROBLEMS[trainer.answer(dataclasses.replace(hello, run="two")).problem - 1] == FAILED
    trainer.images = there
    assert trainer.answer(Request("query", "one", 1, settings=settings | query)).problem == 0


# -------------------------------------------------------------------------------------- the model's guess


def test_people_may_see_what_the_global_model_took_an_image_for(small, tmp_path):
    experiment = small(rounds=2, strategy="entropy")
    transport = loopback(experiment, tmp_path)
    result = run_plan(plan_of(experiment, tmp_path), transport, NAMES)
    trainer = transport.trainers[0]
    run = json.loads((result.folder / "field.json").read_text())["run"]
    first, second = site_selections(trainer, run, 2)
    assert [trainer.store.rounds.find(run, r).strategy for r in (1, 2)] == ["random", "entropy"]
    assert trainer.guess(first[0]) is None  # there was no model yet
    sent = next(r.weights for k, r in transport.asked if (k, r.kind, r.al_round) == (0, "query", 2))
    logits, _ = trainer.site_run.engine.infer(sent, trainer.site_run.holdings.images)
    sure, classes = logits.softmax(1).max(1)
    for sample in second:
        assert trainer.guess(sample) == (classes[sample], pytest.approx(sure[sample].item(), abs=1e-5))
    never = next(k for k in range(len(trainer.site_run.holdings.images)) if k not in first + second)
    assert trainer.guess(never) is None
