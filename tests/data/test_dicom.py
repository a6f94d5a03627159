"""DICOM and 16-bit PNG: to their full depth, in any window, without a word about the patient."""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pydicom
import pydicom.pixels
import pytest
from PIL import Image

from fedactive.data import dicom
from fedactive.data.deep import Deep
from fedactive.data.pictures import decode, fit, see
from fedactive.errors import ConfigurationError, DataError
from fedactive.sites.card import card_from_plain, card_to_plain, read_card
from fedactive.sites.site.read_images import read_images
from support.dicoms import PUBLISHED, copy

SHAPE = (1, 16, 16)


@pytest.mark.parametrize(
    "kind", ["", "_RLE", "_bigendian", "_implicit", "_jp2klossless", "_jpeg_ls_lossless"]
)
def test_every_lossless_compression_gives_the_same_values(kind):
    seen, plain = see(PUBLISHED / f"MR_small{kind}.dcm"), pydicom.dcmread(PUBLISHED / "MR_small.dcm")
    assert isinstance(seen, Deep)
    assert np.array_equal(seen.low + seen.step * seen.counts, plain.pixel_array)
    assert seen.window == (600, 1600)  # the file's own
    assert not seen.hounsfield


def test_values_of_computed_tomography_are_hounsfield_units():
    seen, stored = see(PUBLISHED / "CT_small.dcm"), pydicom.dcmread(PUBLISHED / "CT_small.dcm")
    assert isinstance(seen, Deep)
    assert seen.hounsfield
    assert np.array_equal(seen.low + seen.counts, stored.pixel_array - 1024.0)
    grey = np.asarray(seen.seen_through((40, 400)))
    assert np.array_equal(grey, np.floor((stored.pixel_array - 1024.0 + 160) * 255 / 400).clip(0, 255))


def test_colours_are_colours():
    for name in ("examples_rgb_color", "SC_rgb_jpeg_dcmtk", "SC_rgb_rle_16bit", "examples_palette"):
        seen = see(PUBLISHED / f"{name}.dcm")
        assert isinstance(seen, Image.Image), name
        assert seen.mode == "RGB"
    red = np.asarray(see(PUBLISHED / "SC_rgb_rle_16bit.dcm"))[5, 50]
    assert red.tolist() == [255, 0, 0]


def test_where_high_values_are_dark_they_stay_dark(tmp_path):
    plain = see(copy("MR_small", tmp_path / "a.dcm"))
    other = see(copy("MR_small", tmp_path / "b.dcm", PhotometricInterpretation="MONOCHROME1"))
    assert np.array_equal(np.asarray(other.seen_through()), 255 - np.asarray(plain.seen_through()))
    assert plain.digest() != other.digest()


def test_padding_is_no_part_of_the_range(tmp_path):
    dataset = pydicom.dcmread(PUBLISHED / "CT_small.dcm")
    values = dataset.pixel_array.copy()
    values[:10] = -2000
    dataset.PixelData, dataset.PixelPaddingValue = values.tobytes(), -2000
    dataset.save_as(tmp_path / "padded.dcm")
    low, high = values[10:].min() - 1024, values[10:].max() - 1024
    assert see(tmp_path / "padded.dcm").window == ((low + high) / 2, high - low)


@pytest.mark.parametrize(
    ("name", "tags", "reason"),
    [
        ("rtdose", {}, "it has 15 frames, and one file must be one picture"),
        ("MR_small", {"BurnedInAnnotation": "YES"}, "it says that patient data are written into the picture"),
        ("MR_small", {"PixelData": None}, "it has no picture"),
        ("MR_truncated", {}, "its pixels cannot be decoded (Explicit VR Little Endian)"),
        ("MR_small", {"Rows": 60_000, "Columns": 60_000}, "it is too large"),
    ],
)
def test_what_cannot_be_used_is_named_without_a_word_of_the_file(tmp_path, name, tags, reason):
    assert see(copy(name, tmp_path / "x.dcm", **tags)) == reason


def test_damaged_files_are_told(tmp_path):
    whole = (PUBLISHED / "MR_small.dcm").read_bytes()
    (tmp_path / "short.dcm").write_bytes(whole[:2000])
    (tmp_path / "text.dcm").write_text("Doe, John")
    assert see(tmp_path / "short.dcm") == "its pixels cannot be decoded (Explicit VR Little Endian)"
    assert see(tmp_path / "text.dcm") == "it is not a DICOM file"


def test_nothing_about_the_patient_leaves_the_decoder(tmp_path, capfd, caplog, recwarn):
    secret = {"PatientName": "Doe^Jane", "PatientID": "4711-0815", "PatientBirthDate": "19700229x"}
    for k, name in enumerate(("MR_small", "CT_small", "MR_truncated")):
        copy(name, tmp_path / "in" / f"{k}.dcm", **secret, InstanceNumber=k)
    recwarn.clear()
    pool = read_images(tmp_path / "in", SHAPE, tmp_path / "cache" / "x.npz")
    shown = b"".join(pool.picture(k)[0] for k in range(2)) + repr([pool.values(k) for k in range(2)]).encode()
    told = " ".join(pool.left_out()) + caplog.text + "".join(capfd.readouterr())
    kept = (tmp_path / "cache" / "x.npz").read_bytes()
    assert pool.names == ("0.dcm", "1.dcm")
    for word in ("Doe", "4711", "1970"):
        assert word not in told
        assert word.encode() not in shown + kept
    assert not [str(one.message) for one in recwarn if "1970" in str(one.message)]
    png = Image.open(io.BytesIO(pool.picture(0)[0]))
    assert (png.format, png.mode, png.info) == ("PNG", "L", {})


def test_without_the_extra_the_site_says_what_to_install(tmp_path, monkeypatch):
    copy("MR_small", tmp_path / "a.dcm")
    monkeypatch.setattr(dicom, "can_read", lambda: False)
    assert see(tmp_path / "a.dcm") == dicom.MISSING
    with pytest.raises(DataError, match=r"has DICOM files, such as a.dcm.*pip install 'fedactive\[dicom\]'"):
        read_images(tmp_path, SHAPE)


def eight_bits(path, **tags):
    """A file with every value of 8 bits, and no window unless one is given."""
    depth = {"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7, "PixelRepresentation": 0}
    plain = {"PixelData": VALUES.tobytes(), "WindowCenter": None, "WindowWidth": None}
    return copy("MR_small", path, **plain | depth | tags)


VALUES = (np.arange(64 * 64) % 256).astype(np.uint8).reshape(64, 64)


def test_a_plain_picture_of_eight_bits_stays_one(tmp_path):
    seen = see(eight_bits(tmp_path / "a.dcm"))
    assert (type(seen), seen.mode) == (Image.Image, "L")
    assert np.array_equal(seen, VALUES)
    dark = see(eight_bits(tmp_path / "b.dcm", PhotometricInterpretation="MONOCHROME1"))
    assert np.array_equal(dark, 255 - VALUES)
    windowed = see(eight_bits(tmp_path / "c.dcm", WindowCenter="40", WindowWidth="80"))
    assert windowed.window == (40, 80)
    assert see(eight_bits(tmp_path / "d.dcm", RescaleSlope="2", RescaleIntercept="0")).window == (255, 510)


def test_colours_keep_their_eight_highest_bits():
    palette, colour = (pydicom.dcmread(PUBLISHED / f"examples_{n}.dcm") for n in ("palette", "rgb_color"))
    sixteen_bits = pydicom.pixels.apply_color_lut(palette.pixel_array, palette)
    assert np.array_equal(see(PUBLISHED / "examples_palette.dcm"), sixteen_bits >> 8)
    assert np.array_equal(see(PUBLISHED / "examples_rgb_color.dcm"), colour.pixel_array)


@pytest.mark.parametrize(
    ("level", "width", "window"),
    [
        (["40", "300"], ["400", "1500"], (40, 400)),  # the first of several
        ("40", "1", (40, 1)),
        ("40", "0", (127.5, 255)),  # none at all: that of its values
        ("", "400", (127.5, 255)),
    ],
)
def test_the_first_window_counts_if_it_is_one(tmp_path, level, width, window):
    copied = eight_bits(
        tmp_path / "a.dcm", WindowCenter=level, WindowWidth=width, RescaleIntercept="0", Modality="CT"
    )
    seen = see(copied)
    assert (seen.window if isinstance(seen, Deep) else (127.5, 255)) == window


@pytest.mark.parametrize("padding", [-2000, 7])
def test_a_picture_of_one_value_has_the_least_window(tmp_path, padding):
    flat = np.full((128, 128), 7, np.int16).tobytes()
    path = copy("CT_small", tmp_path / "a.dcm", PixelData=flat, PixelPaddingValue=padding)
    assert see(path).window == (7 - 1024, 1)


def test_what_pillow_allows_is_not_too_large(tmp_path, monkeypatch):
    path = eight_bits(tmp_path / "a.dcm")
    for limit, refused in ((64 * 64, False), (64 * 64 - 1, True)):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        assert (see(path) == "it is too large") == refused
    two = copy("MR_small", tmp_path / "b.dcm", NumberOfFrames=2)
    assert see(two) == "it has 2 frames, and one file must be one picture"


def test_a_file_says_nothing_but_the_standards_name_of_its_compression(tmp_path):
    whole = (PUBLISHED / "MR_small.dcm").read_bytes()
    assert dicom.is_dicom(whole)
    syntax, path = b"1.2.840.10008.1.2.1\0", tmp_path / "a.dcm"
    for other in (b"1.2.840.99999.1.2.1\0", b"1.2.840.10008.1.1\0\0\0"):  # private; not a compression
        path.write_bytes(whole.replace(syntax, other, 1))
        assert see(path) == "its pixels cannot be decoded (unknown)"
    path.write_bytes(whole.replace(b"\x02\0\x10\0UI", b"\x02\0\x17\0UI", 1))  # not stated
    assert see(path) == "its pixels cannot be decoded (unknown)"
    assert see(copy("MR_small", path, Rows=None)) == "it is a damaged DICOM file"


def test_the_libraries_are_silenced(tmp_path, monkeypatch, caplog):
    said = []
    gdcm = ModuleType("gdcm")
    gdcm.__spec__ = ModuleSpec("gdcm", None)
    gdcm.Trace = SimpleNamespace(
        **{f"{n}Off": partial(said.append, n) for n in ("Warning", "Error", "Debug")}
    )
    monkeypatch.setitem(sys.modules, "gdcm", gdcm)
    secret = copy("MR_small", tmp_path / "a.dcm", PatientID="Doe" * 30)  # longer than the standard allows
    for look in (see, dicom.patient_of):
        said.clear()
        monkeypatch.setattr(logging.getLogger("pydicom"), "disabled", False)
        monkeypatch.setattr(pydicom.config.settings, "reading_validation_mode", pydicom.config.WARN)
        assert look(secret)
        assert said == ["Warning", "Error", "Debug"]
        assert pydicom.config.settings.reading_validation_mode == pydicom.config.IGNORE
        logging.getLogger("pydicom").warning("Doe")
        with warnings.catch_warnings():
            warnings.warn_explicit("Doe", UserWarning, "valuerep.py", 1, module="pydicom.valuerep")
        assert not caplog.text


# ------------------------------------------------------------------------------------------- windows


def sixteen(folder, name, values):
    folder.mkdir(exist_ok=True)
    Image.fromarray(np.asarray(values, np.uint16)).save(folder / name)
    return folder / name


def test_twelve_bits_in_a_png_of_sixteen_are_visible(tmp_path):
    ramp = np.arange(256).reshape(16, 16)
    twelve, full = sixteen(tmp_path, "12.png", ramp * 16), sixteen(tmp_path, "16.png", ramp * 257)
    assert decode(twelve, SHAPE).pixels.max() == 254
    assert np.array_equal(decode(full, SHAPE).pixels[0], ramp)  # as it always was
    assert np.array_equal(
        decode(twelve, SHAPE, (2048, 256)).pixels[0], ((ramp * 16 - 1920) * 255 // 256).clip(0, 255)
    )


def test_a_pool_knows_what_is_deep_and_training_sees_the_window(tmp_path):
    folder = tmp_path / "in"
    copy("CT_small", folder / "ct.dcm")
    sixteen(folder, "deep.png", np.arange(256).reshape(16, 16) * 16)
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(folder / "flat.png")
    cache = tmp_path / "cache" / "x.npz"
    for window in (None, (40.0, 400.0), (40.0, 400.0)):  # the last from the cache
        pool = read_images(folder, SHAPE, cache, window=window)
        assert pool.deep == (True, True, False)
        assert np.array_equal(pool.pixels[0], fit(pool.values(0), SHAPE, window))
        assert np.array_equal(pool.pixels[2], np.arange(256).reshape(1, 16, 16))
    assert [pool.is_deep(k) for k in (-1, 0, 2, 3)] == [False, True, False, False]
    with pytest.raises(DataError, match=r"flat.png is no longer a picture of more than 8 bits"):
        pool.values(2)


def test_the_window_is_stated_in_the_plan_and_in_messages_only_then():
    table = {"classes": ["a", "b"], "size": 16}
    assert "window" not in card_to_plain(read_card("chest", table))
    card = read_card("chest", table | {"window": [40, 400]})
    assert card.window == (40, 400)
    assert card_from_plain(json.loads(json.dumps(card_to_plain(card)))) == card
    for wrong in (40, [40], [40, 0], [40, -1], [40, "x"], [40, float("nan")]):
        with pytest.raises(ConfigurationError, match=r"images.window.*\[level, width\]"):
            read_card("chest", table | {"window": wrong})


# ------------------------------------------------------------------------------------------- patients


def test_images_of_a_patient_are_on_one_side_of_the_test_split(tmp_path):
    for k, (folder, patient) in enumerate(
        [
            ("images", "1"),
            ("images", "2"),
            ("images", "2"),
            ("test/cat", "2"),
            ("test/dog", "3"),
            ("images", ""),
        ]
    ):
        values = pydicom.dcmread(PUBLISHED / "MR_small.dcm").pixel_array + k
        copy("MR_small", tmp_path / folder / f"{k}.dcm", PatientID=patient, PixelData=values.tobytes())
    for _ in range(2):  # also from the cache
        pool = read_images(tmp_path / "images", SHAPE, tmp_path / "cache" / "x.npz", test=tmp_path / "test")
        assert pool.names == ("0.dcm", "5.dcm")
        assert pool.left_out() == [
            f"{k}.dcm is left out: its patient is among the test images" for k in (1, 2)
        ]
