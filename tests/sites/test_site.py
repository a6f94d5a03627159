"""A site's folder: what it is made of, what must stay as it was, and what people are told about the coordinator."""

from __future__ import annotations

import os
import stat
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from fedactive.data import DATASETS
from fedactive.errors import DataError, UserError
from fedactive.sites import keys
from fedactive.sites import site as site_module
from fedactive.sites.site import FILES, Site

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


# ------------------------------------------------------------------------------------ images that change


def test_pictures_that_change_places_are_refused(sources):
    """Even if neither sizes nor times tell: labels would belong to the wrong pictures."""
    site, images = make(sources), sources / "images"
    for k in range(5):
        os.utime(images / f"{k}.png", ns=(10**18, 10**18))
    assert len({path.stat().st_size for path in images.iterdir()}) == 1
    site.read(SHAPE)
    (images / "1.png").rename(images / "x")
    (images / "2.png").rename(images / "1.png")
    (images / "x").rename(images / "2.png")
    with pytest.raises(DataError, match=r"not those of the first start.*: 1.png is another picture; restore"):
        site.read(SHAPE)


def test_the_image_that_changed_is_named(sources):
    site, images = make(sources), sources / "images"
    site.read(SHAPE)
    content = (images / "3.png").read_bytes()
    (images / "3.png").unlink()
    with pytest.raises(DataError, match=r"3.png is missing"):
        site.read(SHAPE)
    (images / "3.png").write_bytes(content)
    site.read(SHAPE)
    site.read((3, 4, 4))  # in whatever shape
    Image.new("L", (8, 8)).save(images / "00.png")
    with pytest.raises(DataError, match=r"00.png is new"):
        site.read(SHAPE)


def test_other_images_in_an_archive_of_the_same_name_are_refused(sources):
    archive, pictures = sources / "images.npz", np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8)
    np.savez(archive, train_images=pictures)
    site = Site.init(sources / "site", "north", archive, sources / "classes.txt", None)
    site.read(SHAPE)
    np.savez(archive, train_images=pictures[[0, 2, 1]])
    with pytest.raises(DataError, match=r"train_images\[1\] is another picture"):
        site.read(SHAPE)


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
        store.answers.record(store.annotators.named("ada"), 0, "label", 0)
        site.keep_classes(store)
        toml.write_text(toml.read_text().replace('"dog", "cat"', '"dog", "cow"'))
        with pytest.raises(DataError, match=r"not those that people have labelled with: dog, cat; restore"):
            Site.open(site.folder).keep_classes(store)


# ------------------------------------------------------------------------------------- init, interrupted


@pytest.mark.parametrize("there", range(len(FILES)))
def test_an_interrupted_init_is_done_again(sources, there):
    made = make(sources)
    first = (made.folder / "site.pub").read_bytes()
    for name in FILES[there:]:
        (made.folder / name).unlink()
    with pytest.raises(UserError, match="is no site's folder; `fedactive site init` makes one"):
        Site.open(made.folder)
    again = make(sources)
    assert keys.read_public_key(again.folder / "site.pub")[1] == "north"
    assert (again.folder / "site.pub").read_bytes() != first
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


def test_decoded_images_are_kept_for_the_run_that_is_going_on_only(sources):
    site = make(sources)
    site.read(site_module.THUMBNAIL)
    for dataset in ("digits", "cifar10", "mnist"):
        site.holdings(DATASETS[dataset])
    assert {path.name for path in site.folder.glob("images-*")} == {"images-1x8x8.npz", "images-1x28x28.npz"}
