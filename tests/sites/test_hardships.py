"""What befalls a site: a full disk, a clock that jumps, too few images. The run goes on, and no label is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

from fedactive.errors import UserError
from fedactive.query import STRATEGIES
from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.labels.database import StoreError
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.messages import NO_LABELS, NOT_ASKED, PROBLEMS
from fedactive.sites.site.folder import Site
from fedactive.sites.site.trainer import Trainer
from support.lacking import lacking
from support.loopback import Unchanging, held, loopback

NAMES = ["north", "south", "west"]
DAY = 86_400.0


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)


def run_field(experiment, folder, transport, **rules):
    experiment = dataclasses.replace(experiment, runs_dir=folder / "coordinator")
    return run_plan(FieldPlan(experiment, Rules(**rules)), transport, NAMES)


# ----------------------------------------------------------------------------------------- the disk is full


class SmallDisk:
    """A real file system of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filler = folder / "filler"

    def fill(self) -> None:
        with self.filler.open("ab", buffering=0) as file:
            for size in (2**16, 2**12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)
        assert shutil.disk_usage(self.folder).free == 0

    def make_room(self) -> None:
        self.filler.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        lacking("a small disk can be mounted by root only")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_named_and_no_label_is_lost(disk):
    store = LabelStore(disk.folder / "labels.sqlite")
    store.rounds.open("run", 1, range(5000), "logo", None)
    store.annotators.add("ada")
    ada = store.annotators.find("ada")
    disk.fill()
    confirmed = {}

    def label_all():  # what SQLite has room for already is filled first
        for sample in range(5000):
            store.answers.record(ada, sample, "label", sample % 7)
            confirmed[sample] = sample % 7

    with pytest.raises(
        StoreError, match=r"cannot use the label store .*: (database or disk is full|disk I/O)"
    ):
        label_all()
    assert store.labels() == confirmed
    disk.make_room()
    store.answers.record(ada, 4999, "label", 3)
    store.close()
    again = LabelStore(disk.folder / "labels.sqlite")
    assert again.labels() == confirmed | {4999: 3}
    again.close()


@pytest.mark.parametrize("pages", range(4))
def test_a_site_is_made_when_there_is_room_again(tmp_path, disk, pages):
    """Of its four files the first ones find room."""
    Image.new("L", (8, 8)).save(tmp_path / "x.png")
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    new = (disk.folder / "site", "north", tmp_path, tmp_path / "classes.txt", None)
    new[0].mkdir()
    disk.fill()
    os.truncate(disk.filler, disk.filler.stat().st_size - pages * 4096)
    with pytest.raises(UserError, match=r"cannot (make a site in|write) .*: No space left on device"):
        Site.init(*new)
    disk.make_room()
    assert Site.init(*new).name == "north"


def test_a_site_goes_on_when_there_is_room_again(small, tmp_path, disk, caplog):
    """Full while people label, while the site trains, and while it chooses: in the end the same numbers."""
    experiment = small(rounds=2, fl_rounds=2, strategy="entropy", algorithm="scaffold")
    smooth = run_field(experiment, tmp_path / "smooth", loopback(experiment, tmp_path / "smooth"))

    (tmp_path / "rough").mkdir()
    (tmp_path / "rough" / "site0").symlink_to(disk.folder)
    transport = loopback(experiment, tmp_path / "rough")
    annotator, told = transport.annotators[0], []
    label = annotator.work
    fill_after = [("query", 1, 0), ("train", 1, 0), ("train", 1, 1)]

    def label_or_complain(queue="round"):
        try:
            label(queue)
        except StoreError as error:
            told.append(str(error))
            disk.make_room()

    def trouble(k, request, reply):
        if k == 0 and reply.problem:
            disk.make_room()
        elif k == 0 and (request.kind, request.al_round, request.fl_round) in fill_after:
            fill_after.pop(0)
            disk.fill()
        return reply

    annotator.work, transport.tamper = label_or_complain, trouble
    rough = run_field(experiment, tmp_path / "rough", transport, minimum_sites=3)
    assert len(told) == 1
    assert "full" in told[0] or "I/O" in told[0]
    assert fill_after == []
    dropped = [item["what"] for item in json.loads((rough.folder / "status.json").read_text())["dropped"]]
    assert dropped == [
        "north failed, see the log of the site (AL round 1, FL round 2)",
        "north failed, see the log of the site (query)",
    ]
    assert caplog.text.count("No space left on device") >= 2
    ours, theirs = (read_checkpoint(run.folder / "checkpoint.pt").server.weights for run in (rough, smooth))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


# ------------------------------------------------------------------------------------- a backup is restored


def back_up(store, copy):
    with contextlib.closing(sqlite3.connect(copy)) as target:
        store.database.connection.backup(target)


def restored(transport, copy):
    """The site is stopped, its label store replaced as the documentation says, and the site started again."""
    trainer, annotator = transport.trainers[0], transport.annotators[0]
    trainer.close()
    trainer.store.close()
    path = trainer.store.database.path
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    shutil.copy(copy, path)
    annotator.store = LabelStore(path)
    transport.trainers[0] = Trainer(trainer.folder, annotator.store, trainer.classes, trainer.images, "cpu")


@pytest.mark.parametrize("backup_before", [1, 2])
@pytest.mark.parametrize("during", ["label_status", "train"])
def test_people_are_asked_again_for_what_a_backup_does_not_know(small, tmp_path, during, backup_before):
    """Restored in AL round 2 from before it, or before all rounds: at the end the site has all its labels."""
    experiment = small(rounds=3, fl_rounds=2, strategy="entropy")
    transport, opened = loopback(experiment, tmp_path), {}
    answer = transport.trainers[0].answer

    def copied_before(request):
        if (request.kind, request.al_round) == ("query", backup_before):
            back_up(transport.annotators[0].store, tmp_path / "copy.sqlite")
        return answer(request)

    def restore_once(k, request, reply):
        assert reply.problem in (0, 1 + PROBLEMS.index(NO_LABELS))
        if k == 0 and (request.kind, request.al_round) == (during, 2) and not opened:
            opened[request.run] = transport.annotators[0].store.rounds.find(request.run, 2)
            restored(transport, tmp_path / "copy.sqlite")
        transport.annotators[0].work("late")
        return reply

    transport.trainers[0].answer, transport.tamper = copied_before, restore_once
    run_field(experiment, tmp_path, transport, overlap=2, deadline=72)
    ((run, before),) = opened.items()
    again = transport.annotators[0].store.rounds.find(run, 2)
    for kept in ("strategy", "overlap", "deadline"):
        assert getattr(again, kept) == getattr(before, kept)
    client = transport.trainers[0].site_run.client
    assert len(client.labelled) == 3 * client.budgets[0]


def test_a_restored_site_says_what_is_pending(small, tmp_path):
    experiment = small(rounds=1, fl_rounds=1, strategy="random")
    transport = loopback(experiment, tmp_path)
    back_up(transport.annotators[0].store, tmp_path / "copy.sqlite")
    statuses = []

    def restore_at_first(k, request, reply):
        if k == 0 and request.kind == "label_status":
            if not statuses:
                restored(transport, tmp_path / "copy.sqlite")
                reply = transport.trainers[0].answer(request)
            statuses.append((reply.values["requested"], reply.values["pending"]))
        return reply

    transport.tamper = restore_at_first
    run_field(experiment, tmp_path, transport)
    budget = transport.trainers[0].site_run.client.budgets[0]
    assert statuses == [(budget, budget), (budget, 0)]


def test_a_site_that_was_restored_as_a_whole_is_asked_again(small, tmp_path):
    """From a backup of its folder from before the round that is going on: it knows nothing of that."""
    experiment = small(rounds=2, fl_rounds=1, strategy="entropy")
    transport = loopback(experiment, tmp_path)
    statuses = []

    def restore_once(k, request, reply):
        if k == 0 and (request.kind, request.al_round) == ("query", 1):
            shutil.copytree(transport.trainers[0].folder, tmp_path / "runs of the backup")
            back_up(transport.annotators[0].store, tmp_path / "copy.sqlite")
        if k == 0 and (request.kind, request.al_round) == ("label_status", 2):
            if not statuses:
                shutil.rmtree(transport.trainers[0].folder)
                shutil.copytree(tmp_path / "runs of the backup", transport.trainers[0].folder)
                restored(transport, tmp_path / "copy.sqlite")
                reply = transport.trainers[0].answer(request)
            statuses.append(reply.problem)
            assert len(statuses) < 5
        return reply

    transport.tamper = restore_once
    run_field(experiment, tmp_path, transport)
    assert statuses == [1 + PROBLEMS.index(NOT_ASKED), 0]


# ------------------------------------------------------------------------------------------ the clock jumps


class Clock:
    """The wall clock, which somebody sets; time.monotonic() goes on as ever."""

    def __init__(self) -> None:
        self.real = time.time
        self.off = 0.0

    def __call__(self) -> float:
        return self.real() + self.off


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_set_neither_ends_a_round_nor_prolongs_it(small, tmp_path, clock, days):
    experiment = small(rounds=1, fl_rounds=1, strategy="random")
    transport = loopback(experiment, tmp_path)
    transport.annotators[0].busy = False  # only the deadline ends the round
    looks = []

    def jump(k, request, reply):
        clock.off = days * DAY if request.kind == "label_status" else 0.0
        looks.append(time.monotonic())
        return reply

    transport.tamper = jump
    result = run_field(experiment, tmp_path, transport, deadline=1 / 3600)
    assert result.selections["client"].unique().tolist() == [1, 2]
    asked = [q.kind for _, q in transport.asked]
    last = max(k for k, kind in enumerate(asked) if kind == "label_status")
    assert 0.9 < looks[last] - looks[asked.index("query")] < 30


def test_a_deadline_that_is_moved_holds_for_the_round_that_is_going_on(small, tmp_path, clock):
    experiment = small(rounds=1, fl_rounds=1, strategy="random")
    transport = loopback(experiment, tmp_path)
    late, hour = transport.annotators[0], 3600
    late.busy = False

    def stop(k, request, reply):
        if request.kind == "label_status":
            raise KeyboardInterrupt
        return reply

    transport.tamper = stop
    with pytest.raises(KeyboardInterrupt):
        run_field(experiment, tmp_path, transport, deadline=1)
    before = late.store.rounds.current().deadline.timestamp()
    clock.off = 2 * hour
    shown = []

    def wake_up(k, request, reply):
        if request.kind == "label_status" and k == 0:
            shown.append(late.store.rounds.current().deadline.timestamp())
            late.busy = len(shown) > 2
        return reply

    transport.tamper = wake_up
    result = run_field(experiment, tmp_path, transport, deadline=10)
    assert set(shown) == {before + 9 * hour}
    assert result.selections["client"].unique().tolist() == [0, 1, 2]


def test_a_clock_that_jumps_disturbs_no_run(small, tmp_path, clock):
    experiment = small(rounds=2, fl_rounds=2, strategy="entropy")
    smooth = run_field(experiment, tmp_path / "smooth", loopback(experiment, tmp_path / "smooth"))
    transport = loopback(experiment, tmp_path / "rough")

    def jump(k, request, reply):
        clock.off = (-3, 5, 0, -400)[len(transport.asked) % 4] * DAY
        return reply

    transport.tamper = jump
    rough = run_field(experiment, tmp_path / "rough", transport, deadline=1)
    assert rough.accuracy.tolist() == smooth.accuracy.tolist()


def test_the_log_is_in_the_order_of_answers_whatever_the_clock_says(tmp_path, clock):
    store = LabelStore(tmp_path / "labels.sqlite")
    store.rounds.open("run", 1, range(4), "logo", None)
    store.annotators.add("ada")
    ada = store.annotators.find("ada")
    for sample, days in enumerate((5, -5, 0)):
        clock.off = days * DAY
        store.answers.record(ada, sample, "label", 1, seconds=2.0)
    assert [event.sample for event in store.answers.history(ada, 9)] == [2, 1, 0]
    clock.off = -9 * DAY
    assert store.answers.undo(ada).sample == 2
    store.rounds.close("run", 1)
    clock.off = 9 * DAY
    store.answers.record(ada, 3, "label", 1)
    assert store.labels_at_close("run", 1) == {0: 1, 1: 1}
    store.close()


# ------------------------------------------------------------------------------------------ too few images


@pytest.mark.parametrize("strategy", sorted(s for s in STRATEGIES if not STRATEGIES[s].coordinated))
def test_a_site_with_fewer_images_than_the_budget_gives_what_it_has(small, tmp_path, strategy):
    experiment = small(rounds=2, fl_rounds=1, strategy=strategy, local_only_epochs=1)
    transport = loopback(experiment, tmp_path)
    there = transport.trainers[0].images.held
    few = held(there.images[:5], there.test_images, there.test_labels)
    transport.trainers[0].images = Unchanging(few)
    result = run_field(experiment, tmp_path, transport)
    by_round = result.selections.groupby(["al_round", "client"]).size()
    assert by_round[1, 0] == 5
    assert (2, 0) not in by_round
    assert by_round[2, 1] == by_round[1, 1] > 5
    assert not json.loads((result.folder / "status.json").read_text())["dropped"]
