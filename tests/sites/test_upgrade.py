"""Today's code opens the folders that a release left in the middle of a run, keeps the labels, and goes on.

tests/releases/ has an archive of each release, and says how it was made.
"""

from __future__ import annotations

import json
import zipfile
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from fedactive.record.run_tables import RunTables
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
from fedactive.sites.site.trainer import Trainer
from releases.make import ANSWERS_OF_ROUND_1, CLASSES, FOLDER, PLAN, class_of
from support.loopback import Annotator, Loopback

RELEASES = sorted((Path(__file__).parents[1] / "releases").glob("*.zip"))
SITES = ("north", "south")


@pytest.fixture(params=RELEASES, ids=lambda archive: archive.stem)
def left(request, tmp_path):
    """The folders of that release, unpacked."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    for name in SITES:
        file = tmp_path / name / "site.toml"
        file.write_text(file.read_text().replace(FOLDER, str(tmp_path)))
    return tmp_path


def answered(left: Path, name: str) -> dict[int, int]:
    """What people had answered when it was stopped."""
    return {
        int(sample): label for sample, label in json.loads((left / "labels.json").read_text())[name].items()
    }


def test_a_coordinator_knows_its_sites_and_finds_its_run(left):
    hub = Coordinator(left / "hub")
    assert [site.name for site in hub.sites()] == list(SITES)
    assert hub.certificate_notice() is None
    plan = hub.find_begun(PLAN)
    assert plan is not None
    assert hub.keep_plan(PLAN).experiment.name == plan.experiment.name  # not the beginning of another run
    assert read_status(hub.run_folder(plan)).sites["north"]["labelled_in_all"] == 7
    assert len(RunTables(hub.run_folder(plan)).accuracy) == 1


@pytest.mark.parametrize("name", SITES)
def test_a_site_keeps_its_labels_and_people(left, name):
    site = Site.open(left / name)
    with closing(site.store()) as store:
        site.keep_classes(store)
        assert store.labels() == answered(left, name)
        assert store.annotators.find("ada") is not None
        assert len(Collection(site, store)) == 30
        assert store.labels() == answered(left, name)
        assert site.classes == CLASSES


def test_a_run_goes_on_to_its_end(left, monkeypatch):
    monkeypatch.setattr(correspondence, "FIRST_PAUSE", 0.01)
    hub = Coordinator(left / "hub")
    plan = hub.find_begun(PLAN)
    begun = RunTables(hub.run_folder(plan))
    accuracy, first = begun.accuracy.tolist(), begun.selections
    with ExitStack() as open_files:
        trainers, annotators = [], []
        for name in SITES:
            site = Site.open(left / name)
            store = open_files.enter_context(closing(site.store()))
            classes = [class_of(path.read_bytes()) for path in sorted((left / f"{name}-images").iterdir())]
            trainers.append(
                Trainer(site.folder / "runs", store, site.classes, Collection(site, store), "cpu")
            )
            annotators.append(Annotator(store, classes))
        transport = Loopback(trainers, annotators)
        result = run_plan(plan, transport, SITES)
        assert {request.al_round for _, request in transport.asked if request.kind == "train"} == {2, 3}
        for name, annotator in zip(SITES, annotators, strict=True):
            labels = annotator.store.labels()
            assert labels.items() >= answered(left, name).items()
            assert len(labels) == 3 * ANSWERS_OF_ROUND_1
    assert result.accuracy.tolist()[:1] == accuracy
    assert len(result.accuracy) == 3
    assert np.isfinite(result.accuracy).all()
    assert result.selections["al_round"].value_counts().to_dict() == {r: len(first) for r in (1, 2, 3)}
    dropped = read_status(result.folder).dropped
    assert [
        item for item in dropped if item["kind"] != "collapse"
    ] == []  # of so small a model that is normal
