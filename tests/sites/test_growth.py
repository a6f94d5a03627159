"""Images arrive, go and come back while a run goes on; with the site killed all the time, too."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from PIL import Image

from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.plan import FieldPlan, Rules
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
from fedactive.sites.site.trainer import Trainer
from support.loopback import Annotator, loopback, truths

NAMES = ["north", "south", "west"]
AT_FIRST = 60  # images of the first site


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)


class ByName:
    """The class of an image is in the name of its file."""

    def __init__(self, images):
        self.images = images

    def __getitem__(self, sample):
        return int(self.images.names[sample].removesuffix(".png")[-1])


class Grown:
    """A run whose first site has a folder of images, of which most are elsewhere at first."""

    def __init__(self, experiment, folder):
        self.experiment = dataclasses.replace(experiment, runs_dir=folder / "coordinator")
        self.transport = loopback(experiment, folder)
        there, truth = self.transport.trainers[0].images.held, truths(experiment)[0]
        self.count = len(truth)
        self.pool, self.away = folder / "pool", folder / "away"
        self.pool.mkdir()
        self.away.mkdir()
        for k, (image, label) in enumerate(zip(there.images, truth, strict=True)):
            place = self.pool if k < AT_FIRST else self.away
            Image.fromarray(image[0].numpy()).save(place / f"{k:04}-{label}.png")
        classes = folder / "classes.txt"
        classes.write_text("\n".join(self.transport.trainers[0].classes))
        self.site = Site.init(folder / "north", "north", self.pool, classes, None)
        self.store = self.site.store()
        self.tests = there
        self.restart()

    def restart(self):
        """As after kill -9: all that the site knows is on disk."""
        if self.transport.trainers[0].site_run is not None:
            self.transport.trainers[0].close()
        images = Collection(self.site, self.store)
        classes = self.transport.trainers[0].classes
        self.transport.trainers[0] = Trainer(self.site.folder / "runs", self.store, classes, images, "cpu")
        self.transport.annotators[0] = Annotator(self.store, ByName(images))
        self.images = images

    def move(self, names, into):
        for name in names:
            (self.away if into == self.pool else self.pool).joinpath(name).rename(into / name)

    def run(self, happens, killed=False):
        """`happens` says what is done after which request to the site (kind, AL round, FL round)."""

        def tamper(k, request, reply):
            if k == 0:
                assert not reply.problem
                what = happens.pop((request.kind, request.al_round, request.fl_round), None)
                if what:
                    what()
                if killed:
                    self.restart()
            return reply

        self.transport.tamper = tamper
        result = run_plan(FieldPlan(self.experiment, Rules()), self.transport, NAMES)
        assert not happens
        assert not read_status(result.folder).dropped
        self.status = read_status(result.folder)
        self.weights = read_checkpoint(result.folder / "checkpoint.pt").server.weights
        self.store.close()
        return result

    def queries(self):
        files = sorted(self.site.folder.glob("runs/*/round-*.json"))
        return [json.loads(file.read_text()) for file in files]

    def asked(self):
        """Return the names of the images that each round has asked for."""
        return [[self.images.names[number] for number in query["samples"]] for query in self.queries()]


@pytest.fixture
def grown(small, tmp_path):
    """What makes runs, whose training also sees the unlabelled images."""
    experiment = small(
        strategy="badge", objective="kcfu", budget="20/client", rounds=3, fl_rounds=2, local_epochs=3
    )

    def make(name, **changes):
        (tmp_path / name).mkdir()
        return Grown(dataclasses.replace(experiment, **changes), tmp_path / name)

    return make


def test_new_images_take_part_from_the_next_round(grown):
    site = grown("run")
    late = sorted(path.name for path in site.away.iterdir())
    half = {"first": late[::2], "then": late[1::2]}
    result = site.run(
        {
            ("train", 1, 0): lambda: site.move(half["first"], site.pool),
            ("train", 2, 0): lambda: site.move(half["then"], site.pool),
        }
    )
    first, second, third = site.asked()
    assert not set(first) & set(late)
    assert set(second) & set(half["first"])
    assert not set(second) & set(half["then"])
    assert set(third) & set(half["then"])
    assert [query["known"] for query in site.queries()] == [
        AT_FIRST,
        AT_FIRST + len(half["first"]),
        site.count,
    ]
    # The coordinator learns how many there are. What it asks for was decided at the beginning.
    assert site.status.sites["north"]["images"] == site.count
    assert [len(query["samples"]) for query in site.queries()] == [20, 20, 20]
    assert result.selections.groupby(["al_round", "client"]).size()[3, 0] == 20
    assert site.status.sites["north"]["labelled_in_all"] == 60


def test_a_site_that_is_killed_all_the_time_gives_the_same_numbers(grown):
    """Images arrive in the middle of a round, in which the site starts again: they wait for the next one."""
    runs = {name: grown(name, rounds=2) for name in ("smooth", "killed")}
    for name, site in runs.items():
        late = sorted(path.name for path in site.away.iterdir())
        happens = {
            ("train", 1, 0): lambda s=site, names=late[200:300]: s.move(names, s.pool),
            ("train", 1, 1): lambda s=site, names=late[:100]: s.move(names, s.pool),
            ("query", 2, 0): lambda s=site, names=late[100:200]: s.move(names, s.pool),
        }
        site.run(happens, killed=name == "killed")
    assert runs["killed"].asked() == runs["smooth"].asked()
    ours, theirs = runs["killed"].weights, runs["smooth"].weights
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


def test_images_that_go_take_no_part_and_come_back_with_their_labels(grown):
    site = grown("run", rounds=4)

    def labelled_and_others():
        """Half of what is labelled, and some that nobody asked for."""
        asked = site.asked()[0][:10]
        others = sorted(path.name for path in site.pool.iterdir() if path.name not in site.asked()[0])
        return asked + others[:10]

    moved = []

    def go():
        moved.extend(labelled_and_others())
        site.move(moved, site.away)

    site.run({("train", 1, 1): go, ("train", 3, 1): lambda: site.move(moved, site.pool)})
    second, third, fourth = site.queries()[1:]
    assert len(second["gone"]) == len(third["gone"]) == 20
    assert fourth["gone"] == []
    assert not set(site.asked()[1] + site.asked()[2]) & set(moved)
    # 40 images are left, of which 10 are labelled: 20 are asked for, then the last 10, then those that came back.
    assert [len(query["samples"]) for query in site.queries()] == [20, 20, 10, 10]
    assert site.status.sites["north"]["labelled_in_all"] == 60


def test_a_round_does_not_wait_for_images_that_are_gone(grown):
    """They go while people label."""
    site = grown("run", rounds=2)
    annotator = site.transport.annotators[0]
    work = annotator.work

    def go():
        names = [site.images.names[number] for number in site.queries()[0]["samples"]]
        site.move(names[:5], site.away)
        site.images.look()

    annotator.work = lambda queue="round": (
        None if not site.queries() or site.images.left_out() == [] else work()
    )
    site.run({("query", 1, 0): go})
    assert site.status.sites["north"]["labelled_in_all"] == 15 + 20
