"""Images that come, go, move and change: labels stay with what a picture shows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from fedactive.data import dicom
from fedactive.data.catalog import DATASETS
from fedactive.errors import DataError
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.site import collection, read_images
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
from fedactive.sites.site.image_numbers import ImageNumbers
from fedactive.sites.site.image_pool import GoneError
from support.dicoms import copy

DIGITS = DATASETS["digits"]


def draw(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8), np.uint8)).save(path)


@pytest.fixture
def pictures(tmp_path):
    """0.png to 4.png."""
    for k in range(5):
        draw(tmp_path / "images" / f"{k}.png", k)
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    return tmp_path / "images"


@pytest.fixture
def site(pictures, tmp_path):
    return Site.init(tmp_path / "site", "north", pictures, tmp_path / "classes.txt", None)


def shown(found, sample):
    return found.picture(sample)[0]


def label(store, *samples):
    """Have these images asked for and labelled, each with its number modulo 2."""
    store.rounds.open("run", 1, samples, "random", None)
    if store.annotators.find("ada") is None:
        store.annotators.add("ada")
    for sample in samples:
        store.answers.record(store.annotators.find("ada"), sample, "label", sample % 2)


def test_new_images_get_the_next_numbers(site, pictures, collect, caplog):
    caplog.set_level("INFO")
    found = collect(site)
    before = [shown(found, k) for k in range(5)]
    draw(pictures / "00.png", 10)
    draw(pictures / "ward" / "new.png", 11)
    assert len(found.look().pool) == len(found) == 7
    assert [shown(found, k) for k in range(5)] == before
    assert found.names == ["0.png", "1.png", "2.png", "3.png", "4.png", "00.png", "ward/new.png"]
    assert caplog.messages == ["2 new images"]
    assert list(collect(site).names) == found.names  # after a restart


def test_a_moved_picture_keeps_its_number_and_its_label(site, pictures, collect):
    found = collect(site)
    label(found.store, 1, 2)
    (pictures / "1.png").rename(pictures / "x.png")
    (pictures / "2.png").rename(pictures / "1.png")
    (pictures / "x.png").rename(pictures / "2.png")
    (pictures / "3.png").rename(pictures / "elsewhere.png")
    before = found.look().pool.left_out()
    assert before == []
    assert list(found.names) == ["0.png", "2.png", "1.png", "elsewhere.png", "4.png"]
    assert found.store.labels() == {1: 1, 2: 0}
    assert shown(found, 1) == (pictures / "2.png").read_bytes()


def test_a_picture_that_is_gone_takes_no_part_until_it_is_back(site, pictures, collect, caplog):
    found = collect(site)
    store = found.store
    label(store, 0, 1)
    store.rounds.open("run", 2, [2, 3], "random", None)
    for k in (1, 3):
        (pictures / f"{k}.png").rename(pictures.parent / f"{k}.png")
    found.look()
    gone = [f"{k}.png is gone; its label counts again when it is back" for k in (1, 3)]
    assert found.left_out() == caplog.messages == gone
    ada = store.annotators.find("ada")
    assert store.labels() == {0: 0}
    assert [request.sample for request in store.queues.next(ada, "round", 9)] == [2]
    store.answers.record(ada, 2, "label", 0)
    assert (store.counts("run", 2).pending, store.counts("run", 2).skipped) == (0, 1)
    for k in (1, 3):
        (pictures.parent / f"{k}.png").rename(pictures / f"{k} again.png")
    found.look()
    assert found.left_out() == []
    assert store.labels() == {0: 0, 1: 1, 2: 0}
    assert [request.sample for request in store.queues.next(ada, "round", 9)] == [3]
    assert caplog.messages == gone  # each is told once


def test_another_picture_under_a_name_is_a_new_image(site, pictures, collect):
    found = collect(site)
    label(found.store, 4)
    draw(pictures / "4.png", 99)
    found.look()
    assert found.left_out() == ["4.png is another picture than before, and counts as a new image"]
    assert (found.store.labels(), len(found), len(found.names)) == ({}, 5, 6)
    draw(pictures / "4.png", 4)  # the first one again
    found.look()
    assert found.store.labels() == {4: 0}


def test_a_folder_without_any_known_image_is_the_wrong_one(site, pictures, collect):
    collect(site)
    for k in range(5):
        draw(pictures / f"{k}.png", 100 + k)
    with pytest.raises(DataError, match=r"none of the 5 images that this site had is in .*the right folder"):
        collect(site)


def test_archives_may_grow(tmp_path, collect):
    rows = np.random.default_rng(0).integers(0, 255, (5, 8, 8), np.uint8)
    np.savez(tmp_path / "images.npz", train_images=rows[:3])
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    site = Site.init(tmp_path / "site", "north", tmp_path / "images.npz", tmp_path / "classes.txt", None)
    found = collect(site)
    state, before = found.state(DIGITS), [shown(found, k) for k in range(3)]
    np.savez(tmp_path / "images.npz", train_images=rows[[4, 2, 1, 0, 3]])
    assert found.state(DIGITS) != state
    found.look()
    assert [shown(found, k) for k in range(3)] == before
    assert len(found) == 5


def test_dicom_may_come_to_a_site_as_soon_as_it_can_read_it(site, pictures, collect, monkeypatch):
    collect(site)
    copy("MR_small", pictures / "scan.dcm")
    with monkeypatch.context() as patch:
        patch.setattr(dicom, "can_read", lambda: False)
        assert len(collect(site)) == 5
    assert collect(site).names[5] == "scan.dcm"


def test_a_patient_stays_on_one_side_of_the_split(pictures, tmp_path, collect):
    test = tmp_path / "test"
    copy("MR_small", test / "cat" / "0.dcm", PatientID="B")
    copy("CT_small", pictures / "ct.dcm", PatientID="A")
    site = Site.init(tmp_path / "site", "north", pictures, tmp_path / "classes.txt", test)
    found = collect(site)
    label(found.store, 0, 5)
    assert found.names[5] == "ct.dcm"
    copy("MR_small", pictures / "late.dcm", PatientID="B", InstanceNumber=7)
    copy("MR_small", test / "cat" / "1.dcm", PatientID="A")
    found.look()
    reason = "is left out: its patient is among the test images"
    assert found.left_out() == [f"ct.dcm {reason}", f"late.dcm {reason}"]
    assert (found.store.labels(), len(found)) == ({0: 0}, 5)


# ----------------------------------------------------------------------------------------- for training


def test_holdings_do_not_depend_on_when_somebody_looked(site, pictures, tmp_path, collect):
    """The numbers of late images do: which was seen first is chance."""
    twin = Site.init(tmp_path / "twin", "south", pictures, tmp_path / "classes.txt", None)
    often, once = collect(site), collect(twin)
    for k, name in enumerate(("z.png", "y.png", "a.png")):
        draw(pictures / name, 20 + k)
        often.look()
    (one, other) = (found.read_holdings(DIGITS) for found in (often, once))
    assert one.numbers != other.numbers
    assert one.numbers[:5] == other.numbers[:5] == (0, 1, 2, 3, 4)
    assert (one.images == other.images).all()
    for held, found in ((one, often), (other, once)):
        names = [found.names[number] for number in held.numbers]
        for name, pixels in zip(names, held.images, strict=True):
            assert (pixels[0].numpy() == np.asarray(Image.open(pictures / name))).all()


def test_only_what_is_new_is_decoded(site, pictures, collect, monkeypatch):
    found, decoded = collect(site), []
    decode = read_images.decode
    monkeypatch.setattr(
        read_images, "decode", lambda path, *how: decoded.append(path.name) or decode(path, *how)
    )
    draw(pictures / "new.png", 10)
    (pictures / "broken.png").write_bytes(b"no picture")
    found.look()
    assert sorted(decoded) == ["broken.png", "new.png"]
    found.look()
    (pictures / "0.png").unlink()
    found.look()
    assert sorted(decoded) == ["broken.png", "new.png"]


def test_a_look_at_the_folder_tells_whether_anything_came_or_went(site, pictures, collect):
    found = collect(site)
    held = found.read_holdings(DIGITS)
    assert found.state(DIGITS) == held.state == collect(site).read_holdings(DIGITS).state
    draw(pictures / "new.png", 10)
    assert found.state(DIGITS) != held.state
    (pictures / "new.png").unlink()
    assert found.state(DIGITS) == held.state


# ------------------------------------------------------------------------------------------ for the page


def test_the_page_finds_a_picture_that_was_moved(site, pictures, collect, monkeypatch):
    found = collect(site)
    content = shown(found, 1)
    (pictures / "1.png").rename(pictures / "moved.png")
    with pytest.raises(GoneError):
        found.picture(1)
    monkeypatch.setattr(collection, "SECONDS_BETWEEN_LOOKS", 0.0)
    assert shown(found, 1) == content
    assert found.names[1] == "moved.png"


def test_the_page_never_shows_another_picture_under_a_number(site, pictures, collect, monkeypatch):
    monkeypatch.setattr(collection, "SECONDS_BETWEEN_LOOKS", 0.0)
    found = collect(site)
    content = shown(found, 1)
    draw(pictures / "1.png", 99)
    with pytest.raises(GoneError):
        found.picture(1)
    assert shown(found, 5) != content
    assert found.store.images.gone() == {1}
    os.utime(pictures / "2.png", ns=(1, 1))  # the same picture with another time
    assert shown(found, 2) == (pictures / "2.png").read_bytes()


# -------------------------------------------------------------------------------- backups, earlier versions


def test_a_backup_of_the_labels_is_enough(site, pictures, tmp_path, collect):
    """In a new folder, of images that came in another order than their names'."""
    found = collect(site)
    draw(pictures / "00.png", 10)
    found.look()
    label(found.store, 0, 5)
    backup = found.store.database.path.read_bytes()
    found.store.close()
    backup = found.store.database.path.read_bytes()
    again = Site.init(tmp_path / "again", "north", pictures, tmp_path / "classes.txt", None)
    (again.folder / "labels.sqlite").write_bytes(backup)
    (pictures / "3.png").unlink()
    restored = collect(again)
    assert restored.store.labels() == {0: 0, 5: 1}
    assert (restored.names[0], restored.names[5]) == ("0.png", "00.png")
    assert restored.left_out() == ["image 3 is gone; its label counts again when it is back"]


def test_an_older_backup_of_the_labels_is_brought_up_to_date(site, pictures, collect):
    found = collect(site)
    label(found.store, 0)
    found.store.close()
    store = site.folder / "labels.sqlite"
    shutil.copy(store, site.folder / "backup")
    draw(pictures / "00.png", 10)
    found = collect(site)
    found.store.close()
    shutil.copy(site.folder / "backup", store)
    restored = collect(site)
    assert restored.names[5] == "00.png"
    assert restored.store.labels() == {0: 0}
    assert len(restored.store.images.digests()) == 6


def test_labels_of_other_images_are_refused(site, pictures, tmp_path, collect):
    found = collect(site)
    found.store.close()
    draw(pictures / "0.png", 77)
    other = Site.init(tmp_path / "other", "south", pictures, tmp_path / "classes.txt", None)
    collect(other).store.close()
    shutil.copy(site.folder / "labels.sqlite", other.folder / "labels.sqlite")
    with pytest.raises(DataError, match=r"are not of the same site: image 0 is another picture in each"):
        collect(other)


def test_a_folder_of_an_earlier_version_goes_on(site, pictures, collect):
    """Then images.json was a table of names, and the label store knew no images."""
    found = collect(site)
    label(found.store, 1)
    found.store.database.connection.execute("DROP TABLE images")
    found.store.database.connection.execute("PRAGMA user_version = 5")
    found.store.close()
    numbers = ImageNumbers.read(site.folder)
    (site.folder / "images.json").write_text(
        json.dumps({"images": dict(zip(numbers.names, numbers.digests, strict=True))})
    )
    draw(pictures / "00.png", 10)
    again = collect(site)
    assert list(again.names) == ["0.png", "1.png", "2.png", "3.png", "4.png", "00.png"]
    assert again.store.labels() == {1: 1}
    assert again.read_holdings(DIGITS).began == 5


# --------------------------------------------------------------------------------------------- kill -9

LOOK = """
import sys
from pathlib import Path
from fedactive.data.catalog import DATASETS
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
site = Site.open(Path(sys.argv[1]))
found = Collection(site, site.store())
print("looking", flush=True)
while True:
    found.look()
    found.read_holdings(DATASETS["digits"])
"""


def test_a_site_that_is_killed_while_it_grows_loses_no_number(site, pictures):
    known: list[str] = []
    for life in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", LOOK, str(site.folder)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout.readline() == "looking\n"
            for k in range(30):
                draw(pictures / f"{life} {k * 7919 % 30}.png", 1000 + 100 * life + k)
                if k % 3 == 0:
                    (pictures / f"{life} {k * 7919 % 30}.png").rename(pictures / f"moved {life} {k}.png")
            time.sleep(0.1 * life)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        numbers = ImageNumbers.read(site.folder)
        assert numbers.digests[: len(known)] == known
        assert len(set(numbers.digests)) == len(numbers.digests)
        known = numbers.digests
    with closing(LabelStore(site.folder / "labels.sqlite")) as store:
        found = Collection(site, store)
        assert (len(found), found.left_out()) == (65, [])
        assert list(store.images.digests().values()) == found.found.known.digests
