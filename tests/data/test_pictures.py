"""One picture from its file to pixels: what is read, what is refused, and how it is fitted."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from fedactive.data.pictures import ENDINGS, FORMATS, decode, digest_of, fit, is_picture, see

RNG = np.random.default_rng(0)
COLOUR = Image.fromarray(RNG.integers(0, 256, (10, 14, 3), np.uint8))
GREY = COLOUR.convert("L")


def saved(path: Path, image: Image.Image, **how) -> Path:
    image.save(path, **how)
    return path


def test_a_picture_is_known_by_what_it_shows(tmp_path):
    plain, small = (
        decode(saved(tmp_path / f"{k}.png", COLOUR, compress_level=k), (3, 10, 14)) for k in (0, 9)
    )
    assert plain.digest == small.digest == hashlib.sha256(b"RGB (14, 10) " + COLOUR.tobytes()).digest()
    assert not plain.deep
    assert np.array_equal(plain.pixels, np.asarray(COLOUR).transpose(2, 0, 1))
    turned = Image.frombytes("RGB", (10, 14), COLOUR.tobytes())  # the same bytes, otherwise arranged
    assert len({digest_of(image) for image in (COLOUR, GREY, turned)}) == 3
    deep = decode(saved(tmp_path / "deep.png", Image.fromarray(np.full((2, 2), 700, np.uint16))), (1, 2, 2))
    assert deep.deep


def test_what_is_no_picture_is_named_as_what_it_should_be(tmp_path):
    for name, reason in (("a.png", "PNG or JPEG image"), ("b.DCM", "DICOM file")):
        (tmp_path / name).write_text("text")
        assert see(tmp_path / name) == f"it is not a {reason}"
        assert see(tmp_path / name, FORMATS) == "it is not an image"
    assert decode(tmp_path / "a.png", (1, 2, 2)) == "it is not a PNG or JPEG image"
    assert see(tmp_path / "none.png") == "it cannot be read (No such file or directory)"
    assert see(saved(tmp_path / "a.bmp", COLOUR)) == "it is not a PNG or JPEG image"
    assert see(tmp_path / "a.bmp", FORMATS).size == (14, 10)
    whole = saved(tmp_path / "cut.png", COLOUR).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[:-200])
    assert see(tmp_path / "cut.png").startswith("it cannot be decoded (")


@pytest.mark.parametrize(
    ("limit", "seen"), [(None, True), (140, True), (139, False), (70, False), (14, False)]
)
def test_pictures_up_to_pillows_limit_are_read(tmp_path, monkeypatch, limit, seen):
    path = saved(tmp_path / "a.png", COLOUR)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (see(path) != "it is too large") == seen


def test_formats_are_those_of_images_in_one_order():
    assert list(FORMATS) == sorted(FORMATS)
    assert {"PNG", "JPEG", "TIFF"} < set(FORMATS)
    assert "EPS" not in FORMATS
    assert {".png", ".jpg"} < ENDINGS
    assert ".eps" not in ENDINGS
    assert is_picture(Path("a/B.PNG"))
    assert not is_picture(Path("a/png.txt"))


def test_numbers_of_a_palette_are_seen_as_colours(tmp_path):
    palette = COLOUR.quantize(256)
    assert see(saved(tmp_path / "a.png", palette)).mode == "RGB"
    clear = see(saved(tmp_path / "b.png", palette, transparency=palette.getpixel((0, 0))))
    assert clear.mode == "RGBA"
    assert see(saved(tmp_path / "c.png", GREY)).mode == "L"
    assert fit(clear, (3, 10, 14))[:, 0, 0].tolist() == [0, 0, 0]


def test_it_is_scaled_in_its_proportions_on_black():
    found = fit(COLOUR, (3, 7, 7))
    assert np.array_equal(found.transpose(1, 2, 0), ImageOps.pad(COLOUR, (7, 7), Image.Resampling.BILINEAR))
    assert not found[:, [0, 6]].any()  # 5 of 7 rows are left
    assert np.array_equal(fit(COLOUR, (1, 10, 14))[0], GREY)
    assert np.array_equal(fit(GREY, (3, 10, 14)), np.stack([np.asarray(GREY)] * 3))


@pytest.mark.parametrize("size", [(1, 1000), (1000, 1)])
def test_of_a_long_strip_a_line_is_left(size):
    found = fit(Image.new("L", size, "white"), (1, 8, 8))[0]
    along, across = (0, 1) if size[0] == 1 else (1, 0)
    assert sorted(found.max(along).tolist()) == [0] * 7 + [255]
    assert found.max(across).tolist() == [255] * 8
