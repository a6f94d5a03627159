"""What is known of image files before they are decoded."""

from __future__ import annotations

import hashlib
import warnings

import numpy as np
import pytest
from PIL import Image

from fedactive.data import file_facts
from fedactive.data.file_facts import FileFacts, look_at, read_facts
from fedactive.errors import DataError

PHOTO = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "new" / "cache"))


@pytest.mark.parametrize(("orientation", "sides"), [(1, (2, 3)), (3, (2, 3)), (5, (3, 2)), (8, (3, 2))])
def test_the_size_is_that_of_the_upright_picture(tmp_path, orientation, sides):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for image, grey in ((PHOTO, True), (PHOTO.convert("RGB"), False)):
        image.save(tmp_path / "a.png", exif=exif)
        digest = hashlib.sha256((tmp_path / "a.png").read_bytes()).hexdigest()
        assert read_facts(tmp_path / "a.png") == FileFacts(digest, grey, *sides)


@pytest.mark.parametrize("limit", [5, 2])  # Pillow itself refuses the second
def test_what_is_too_large_is_not_opened(tmp_path, monkeypatch, limit):
    PHOTO.save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as Pillow's are, but in tests
        assert read_facts(tmp_path / "a.png") == "it is too large"


def test_what_is_no_file_is_told(tmp_path):
    assert read_facts(tmp_path) == f"it cannot be read: [Errno 21] Is a directory: '{tmp_path}'"
    Image.fromarray(np.zeros((2, 2), np.float32)).save(tmp_path / "real.tiff")
    assert read_facts(tmp_path / "real.tiff") == "its pixels are real numbers, expected 8 or 16 bits"


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " and 1 more")])
def test_five_unreadable_files_are_named(tmp_path, count, more):
    names = [f"{k}.png" for k in range(count)]
    for name in names:
        (tmp_path / name).write_text("text")
    with pytest.raises(DataError) as said:
        look_at(tmp_path, tmp_path, names)
    some = ", ".join(f"{name} (it is not an image)" for name in names[:5])
    assert str(said.value) == f"{tmp_path}: cannot use {some}{more}; repair these files or take them away"


def test_each_file_is_read_once(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(file_facts, "read_facts", lambda path: read.append(path.name) or read_facts(path))
    for name in ("a.png", "b.png"):
        PHOTO.save(tmp_path / name)
    first = look_at(tmp_path, tmp_path, ["a.png"])
    both = look_at(tmp_path, tmp_path, ["a.png", "b.png"])
    assert both == look_at(tmp_path, tmp_path, ["a.png", "b.png"]) == first * 2
    assert read == ["a.png", "b.png"]
    (kept,) = (tmp_path / "new" / "cache" / "files").iterdir()
    kept.write_text("[]")
    assert look_at(tmp_path, tmp_path, ["a.png"]) == first
