"""A site's folder: what it is made of, what must stay as it was, and what people are told about the coordinator."""

from __future__ import annotations

import stat
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
import torch
from PIL import Image

from fedactive.data.catalog import DATASETS
from fedactive.errors import DataError, UserError
from fedactive.sites import keys
from fedactive.sites.flower import processes
from fedactive.sites.flower import supernode as supernode_module
from fedactive.sites.flower.supernode import SuperNode
from fedactive.sites.keys import read_public_key
from fedactive.sites.site.folder import FILES, Site
from support.folders import make_site, write_pictures

SHAPE = (1, 8, 8)


@pytest.fixture
def sources(tmp_path):
    """Five images and a class list, and how to make a site of them."""
    (tmp_path / "images").mkdir()
    pictures = np.random.default_rng(0).integers(0, 255, (5, 8, 8), np.uint8)
    for k, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / "images" / f"{k}.png", compress_level=0)
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    return tmp_path


def make(sources, folder="site"):
    return Site.init(sources / folder, "north", sources / "images", sources / "classes.txt", None)


# ------------------------------------------------------------------------------------- classes that change


def test_classes_may_be_corrected_until_somebody_has_labelled(sources):
    site = make(sources)
    with closing(site.store()) as store:
        site.keep_classes(store)
        toml = site.folder / "site.toml"
        toml.write_text(toml.read_text().replace('"cat", "dog"', '"dog", "cat"'))
        site = Site.open(site.folder)
        store.rounds.open("run", 1, [0], "random", None)
        store.annotators.add("ada")
        site.keep_classes(store)
        store.answers.record(store.annotators.find("ada"), 0, "label", 0)
        site.keep_classes(store)
        toml.write_text(toml.read_text().replace('"dog", "cat"', '"dog", "cow"'))
        with pytest.raises(DataError, match=r"not those that people have labelled with: dog, cat; restore"):
            Site.open(site.folder).keep_classes(store)


# ------------------------------------------------------------------------------------- init, interrupted


@pytest.mark.parametrize("there", range(len(FILES)))
def test_an_interrupted_init_is_done_again(sources, there):
    made = make(sources)
    with closing(made.store()) as store:
        store.annotators.add("ada")
    first = (made.folder / "site.pub").read_bytes()
    for name in FILES[there:]:
        (made.folder / name).unlink()
    with pytest.raises(UserError, match="is not a site's folder; `fedactive site init` makes one"):
        Site.open(made.folder)
    again = make(sources)
    assert keys.read_public_key(again.folder / "site.pub")[1] == "north"
    assert (again.folder / "site.pub").read_bytes() != first
    with closing(again.store()) as store:
        assert store.annotators.find("ada")
    with pytest.raises(UserError, match="is a site's already"):
        make(sources)


@pytest.mark.parametrize("lost", FILES)
def test_a_file_that_somebody_removed_does_not_stand_in_the_way(sources, lost):
    (make(sources).folder / lost).unlink()
    assert make(sources).name == "north"


def test_a_file_is_no_folder(sources):
    with pytest.raises(UserError, match=r"cannot make a site in .*classes.txt: File exists"):
        make(sources, "classes.txt")


# ------------------------------------------------------------------------------------ what is in the folder


def test_nobody_else_can_look_into_the_folder(sources):
    (sources / "there already").mkdir(mode=0o755)
    for folder in ("new", "there already"):
        assert stat.S_IMODE(make(sources, folder).folder.stat().st_mode) == 0o700


def test_decoded_images_are_kept_for_the_run_that_is_going_on_only(sources, collect):
    site = make(sources)
    images = collect(site)
    for dataset in ("digits", "cifar10", "mnist"):
        images.read_holdings(DATASETS[dataset])
    assert {path.name for path in (site.folder / "cache").iterdir()} == {"1x8x8.npz", "1x28x28.npz"}


@pytest.mark.parametrize("images", ["site/images-2024.npz", "images"])
def test_archives_of_the_user_in_the_folder_are_left_alone(sources, collect, images):
    """People put what belongs to a site into its folder, under whatever name."""
    pictures = np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8)
    archives = [sources / "site" / name for name in ("images-2024.npz", "images-1x8x8.npz", "cache/mine.npz")]
    archives[2].parent.mkdir(parents=True)
    for archive in archives:
        np.savez(archive, train_images=pictures, test_images=pictures, test_labels=np.array([0, 1, 0]))
    before = archives[0].read_bytes()
    site = Site.init(sources / "site", "north", sources / images, sources / "classes.txt", archives[1])
    for dataset in ("digits", "mnist"):
        collect(site).read_holdings(DATASETS[dataset])
    assert [archive.read_bytes() for archive in archives] == [before] * 3


def test_images_where_the_site_deletes_are_refused(sources):
    inside = sources / "site" / "cache" / "1x8x8.npz"
    inside.parent.mkdir(parents=True)
    np.savez(inside, train_images=np.zeros((1, 8, 8), np.uint8))
    for images, test in ((inside, None), (sources / "images", inside)):
        with pytest.raises(UserError, match=r"1x8x8.npz is where the site keeps decoded images"):
            Site.init(sources / "site", "north", images, sources / "classes.txt", test)


def test_a_cache_that_cannot_be_written_is_told(sources, collect):
    site = make(sources)
    (site.folder / "cache").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot write .*cache/1x8x8.npz: File exists"):
        collect(site)


# ------------------------------------------------------------------------- what people are told of Flower


UNREACHABLE = "WARNING: Connection attempt failed, retrying in 0.71 seconds\n"
REFUSED = (
    "Exit Code: 305\nClient error '412 Precondition Failed' for url 'https://c:1/v1/fleet/activate-node'\n"
)
STRANGER = (
    "ERROR: SSL/TLS handshake error detected.\n[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed\n"
)
STALE = "INFO: Run ID 15187698992561053014 is not in `RUNNING` status. Ignoring reply message 181fa5f2.\n"
RECEIVED = "INFO: Receiving: query message (ID: 9d984ee6)\nINFO: Received successfully\n"
LIVES = [
    ["Starting Flower SuperNode\n", UNREACHABLE, UNREACHABLE, STRANGER],
    [STRANGER],
    [REFUSED],
    [REFUSED],
    ["INFO: SuperNode ID: 834063787505473073\n", UNREACHABLE, STALE, UNREACHABLE, RECEIVED],
    [],
]


def test_people_are_told_once_what_keeps_the_site_from_the_coordinator(tmp_path, monkeypatch, caplog):
    """The SuperNodes are scripts that say what Flower's say (see test_flower.py), and end."""
    caplog.set_level("INFO")
    lives = iter(LIVES)

    def start(name, arguments, home, log):
        says = next(lives, None)
        if says is None:
            supernode.stopped.set()
        speech = (
            "import sys, time\nfor words in sys.argv[1:]: print(words, end='', flush=True); time.sleep(0.5)"
        )
        with log.open("ab") as output:
            return subprocess.Popen([sys.executable, "-c", speech, *(says or [])], stdout=output)

    monkeypatch.setattr(processes, "start", start)
    monkeypatch.setattr(supernode_module, "FIRST_PAUSE", 0.01)
    supernode = SuperNode(tmp_path, "c:1", lambda request: None)
    supernode.keep_running()
    assert caplog.messages == [
        "the coordinator cannot be reached at c:1; trying again",
        "the certificate at c:1 is not the one of the invitation",
        f"the coordinator at c:1 has not admitted this site (yet): send it {tmp_path}/site.pub; "
        "a site that was dismissed needs a new key: remove site.pub and give `fedactive site init` again",
        "connected to the coordinator at c:1",
        *2
        * ("the coordinator cannot be reached at c:1; trying again", "connected to the coordinator at c:1"),
        f"the SuperNode ended (see {tmp_path}/flower.log) and is started again",
    ]


def test_what_flower_says_does_not_fill_the_disk(tmp_path, monkeypatch):
    log = tmp_path / "flower.log"
    log.write_bytes(b"x" * (processes.LARGEST_LOG + 1))
    monkeypatch.setattr(processes, "PROGRAM", "print('{module} {name} {parent} {patience}')")
    processes.start("supernode", [], tmp_path / "home", log).wait()
    assert log.read_text().startswith("flwr.supernode.cli supernode")
    assert len((tmp_path / "flower.log.old").read_bytes()) == processes.LARGEST_LOG + 1


@pytest.mark.parametrize("end", ["return", "raise KeyboardInterrupt", "raise ValueError"])
def test_a_program_that_ended_is_not_kept_by_its_threads(tmp_path, monkeypatch, end):
    thread = "threading.Thread(target=time.sleep, args=(60,)).start()"
    (tmp_path / "x_program.py").write_text(
        f"import threading, time\ndef flower_x():\n    {thread}\n    {end}\n"
    )
    monkeypatch.setitem(processes.PROGRAMS, "x", "x_program")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert processes.start("x", [], tmp_path / "home", tmp_path / "log").wait(timeout=30) == 1


# ------------------------------------------------------------------------------------- what a site is made of


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def test_what_exists_is_not_made_again(site, tmp_path):
    with pytest.raises(UserError, match="is a site's already"):
        Site.init(site.folder, "x", tmp_path / "images", tmp_path / "classes.txt", None)


def test_a_path_that_is_no_text_is_told(tmp_path):
    write_pictures(tmp_path / "caf\udce9" / "images", 2)
    (tmp_path / "classes.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match="the path of the images is not text in UTF-8; rename its folders"):
        Site.init(
            tmp_path / "north", "north", tmp_path / "caf\udce9" / "images", tmp_path / "classes.txt", None
        )
    assert not (tmp_path / "north").exists()


def test_names_may_have_any_letters(tmp_path, collect):
    write_pictures(tmp_path / "büld😀er", 2)
    (tmp_path / "classes.txt").write_text('café\n😀 "x"\n', encoding="utf-8")
    made = Site.init(tmp_path / "x", "h😀pital é", tmp_path / "büld😀er", tmp_path / "classes.txt", None)
    assert (made.name, made.classes) == ("h😀pital é", ("café", '😀 "x"'))
    assert len(collect(made)) == 2
    assert read_public_key(made.folder / "site.pub")[1] == made.name


def test_a_site_holds_its_images_in_the_form_a_run_wants(site, collect):
    held = collect(site).read_holdings(DATASETS["digits"])
    assert held.images.shape == (5, 1, 8, 8)
    assert held.test_labels.tolist() == [0, 0, 1, 1]
    assert held.test_images.dtype == torch.uint8


def test_what_is_left_out_is_told_when_the_site_is_made(tmp_path, caplog):
    write_pictures(tmp_path / "images", 2)
    (tmp_path / "images" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    Site.init(tmp_path / "x", "x", tmp_path / "images", tmp_path / "classes.txt", None)
    assert caplog.messages == ["broken.png is left out: it is not a PNG or JPEG image"]


def test_a_site_leaves_out_what_cannot_be_used_and_needs_something_that_can(site, collect, tmp_path):
    images = tmp_path / "images"
    (images / "0.png").write_bytes(b"no picture")
    (images / "1.png").write_bytes((images / "2.png").read_bytes())
    found = collect(site)
    assert len(found.read_holdings(DATASETS["digits"]).images) == 3
    report = found.look().pool.report
    assert [name for name, _ in report.unreadable] == ["0.png"]
    assert report.duplicates == (("2.png", "1.png"),)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="no image that can be used"):
        Site.init(tmp_path / "other", "x", tmp_path / "nothing", tmp_path / "classes.txt", None)
    assert not (tmp_path / "other").exists()
