"""The classes of a site, and its test images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedactive.data.catalog import DATASETS
from fedactive.errors import DataError
from fedactive.sites.site.folder import Site
from fedactive.sites.site.labelled_images import read_test_images
from support.folders import CLASSES, make_site, write_pictures


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def test_classes_in_another_encoding_are_told(tmp_path):
    write_pictures(tmp_path / "images", 2)
    (tmp_path / "classes.txt").write_bytes(b"caf\xe9\nother\n")
    with pytest.raises(DataError, match=r"classes.txt is not text in UTF-8"):
        Site.init(tmp_path / "x", "x", tmp_path / "images", tmp_path / "classes.txt", None)


def test_test_images_that_are_left_out_are_told(site, collect, tmp_path, caplog):
    test = tmp_path / "test"
    (test / "cat" / "broken.png").write_bytes(b"no picture")
    (test / "dog" / "9.png").write_bytes((test / "dog" / "0.png").read_bytes())
    told = [
        "among the test images, cat/broken.png is left out: it is not a PNG or JPEG image",
        "among the test images, dog/9.png is left out: the same picture as dog/0.png",
    ]
    Site.init(tmp_path / "other", "x", tmp_path / "images", tmp_path / "classes.txt", test)
    assert caplog.messages == told
    assert len(collect(site).read_holdings(DATASETS["digits"]).test_images) == 4
    assert caplog.messages == told * 2


def test_a_test_picture_of_two_classes_is_refused(site, collect, tmp_path):
    test = tmp_path / "test"
    (test / "dog" / "x.png").write_bytes((test / "cat" / "0.png").read_bytes())
    with pytest.raises(
        DataError, match=r"test/cat/0.png and .*test/dog/x.png are the same picture in two classes"
    ):
        collect(site).read_holdings(DATASETS["digits"])


def test_test_images_of_an_npz(tmp_path):
    images = np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8)
    np.savez(tmp_path / "a.npz", test_images=images, test_labels=np.array([[1], [0], [1]]))
    found, labels = read_test_images(tmp_path / "a.npz", CLASSES, (1, 8, 8))
    assert torch.equal(found, torch.from_numpy(images)[:, None])
    assert labels.tolist() == [1, 0, 1]
    np.savez(tmp_path / "b.npz", test_images=images, test_labels=np.array([1, 0, 2]))
    with pytest.raises(DataError, match="test_labels run from 0 to 2, expected 0 to 1"):
        read_test_images(tmp_path / "b.npz", CLASSES, (1, 8, 8))


def test_a_test_folder_that_is_no_class_is_named(site, collect, tmp_path):
    write_pictures(tmp_path / "test" / "horse", 1)
    with pytest.raises(DataError, match="horse is not named after a class"):
        collect(site).read_holdings(DATASETS["digits"])
