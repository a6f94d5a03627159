"""People see the picture, and nothing else of its file leaves the site's folder."""

from __future__ import annotations

import io
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from fedactive.errors import DataError
from fedactive.sites.site.metadata import JPEG, PNG, chunk, segment, without_metadata
from fedactive.sites.site.read_images import read_images

SECRET = b"Ada Lovelace, born 10-12-1815"
CAMERA, PLACE, ORIENTATION = 0x010F, 0x8825, 0x0112

WORDS = {  # chunks of a PNG file, with the secret
    "tEXt": b"Author\0" + SECRET,
    "iTXt": b"XML:com.adobe.xmp\0\0\0\0\0<x>" + SECRET + b"</x>",
    "zTXt": b"Comment\0\0" + zlib.compress(SECRET, 0),
    "eXIf": b"MM\0*\0\0\0\x08\0\0\0\0\0\0" + SECRET,
    "tIME": b"\x07\x17\x0c\x0a\0\0\0" + SECRET,
    "iCCP": b"scanner\0\0" + zlib.compress(SECRET, 0),
    "sPLT": b"name\0\x08" + SECRET,
    "gAMA": bytes(4) + SECRET,  # longer than it can be
    "prVt": SECRET,
}
NOTES = {  # segments of a JPEG file
    0xFE: SECRET,
    0xE0: b"JFXX\0\x10" + SECRET,
    0xE1: b"http://ns.adobe.com/xap/1.0/\0<x>" + SECRET + b"</x>",
    0xE2: b"ICC_PROFILE\0\1\1" + SECRET,
    0xED: b"Photoshop 3.0\0" + SECRET,
    0xEE: b"Adobe\0\x64\0\0\0\0\x01" + SECRET,
    0xEF: SECRET,
}


@st.composite
def pictures(draw, modes):
    mode = draw(st.sampled_from(modes))
    size = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    noise = np.random.default_rng(draw(st.integers(0, 99))).integers(256, size=(*size, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    return image.convert("L").convert("I;16") if mode == "I;16" else image.convert(mode)


@st.composite
def cameras(draw):
    """What a camera notes, if it does."""
    if not draw(st.booleans()):
        return {}
    exif = Image.Exif()
    exif[CAMERA] = SECRET.decode()
    exif[ORIENTATION] = draw(st.integers(0, 9))
    exif.get_ifd(PLACE)[1] = "N" + SECRET.decode()
    return {"exif": exif}


@st.composite
def png_files(draw):
    image, buffer = draw(pictures(["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])), io.BytesIO()
    options = draw(cameras())
    if image.mode == "P" and draw(st.booleans()):
        options["transparency"] = bytes([0, 99])
    if image.mode == "RGB" and draw(st.booleans()):
        others = [image.transpose(Image.Transpose.ROTATE_180)]
        options |= {"save_all": True, "append_images": others, "default_image": draw(st.booleans())}
    image.save(buffer, "PNG", **options)
    content = buffer.getvalue()
    first = 8 + 25
    end = len(content) - 12
    for kind in draw(st.lists(st.sampled_from(sorted(WORDS)), unique=True)):
        if kind == "eXIf" and b"eXIf" in content:
            continue
        where = draw(st.sampled_from([first, end]))
        content = content[:where] + chunk(kind.encode(), WORDS[kind]) + content[where:]
        end = len(content) - 12
    return content + draw(st.sampled_from([b"", SECRET]))


@st.composite
def jpeg_files(draw):
    image, buffer = draw(pictures(["L", "RGB", "CMYK"])), io.BytesIO()
    options = draw(cameras()) | {"progressive": draw(st.booleans())}
    image.save(buffer, "JPEG", restart_marker_blocks=draw(st.integers(0, 2)), **options)
    content = buffer.getvalue()
    if content[3] == 0xE0:  # a thumbnail of one pixel, and words after it
        length = int.from_bytes(content[4:6])
        content = JPEG + segment(0xE0, content[6:18] + b"\1\1" + SECRET) + content[4 + length :]
    places = [found.start() for found in re.finditer(rb"\xff[\xc0\xc2\xc4\xda\xdb]", content)][:3]
    for code in draw(st.lists(st.sampled_from(sorted(NOTES)), unique=True)):
        if code != 0xEE or image.mode == "RGB":
            where = draw(st.sampled_from(places[:1]))
            content = content[:where] + segment(code, NOTES[code]) + content[where:]
    return content + draw(st.sampled_from([b"", SECRET, content]))


def seen(content):
    """The pixels as one sees them."""
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        upright = ImageOps.exif_transpose(image)
        plain = upright.convert("RGBA" if image.mode == "P" else image.mode)
        return plain.mode, plain.size, plain.tobytes()


@settings(max_examples=80, deadline=None)
@given(st.one_of(png_files(), jpeg_files()))
def test_the_picture_is_the_same_and_no_word_is_left(content):
    shown = without_metadata(content)
    assert SECRET not in shown
    assert seen(shown) == seen(content)
    assert not Image.open(io.BytesIO(shown)).getexif().keys() - {ORIENTATION}
    assert without_metadata(shown) == shown


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_looks_the_same(data):
    content = bytearray(data.draw(st.one_of(png_files(), jpeg_files())))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        shown = without_metadata(damaged)
    except DataError:
        return
    assert shown.startswith((PNG, JPEG))
    assert len(shown) <= len(damaged) + 100
    try:
        before = seen(damaged)
    except Exception:
        return  # training does not see it either
    assert seen(shown) == before


@pytest.mark.parametrize("missing", [5, 12, 14, 16])
def test_a_png_without_its_end_is_seen_as_training_sees_it(tmp_path, missing):
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(tmp_path / "x.png")
    content = (tmp_path / "x.png").read_bytes()
    (tmp_path / "x.png").write_bytes(content[:-missing])
    assert read_images(tmp_path, (1, 8, 8)).picture(0) == (content, "image/png")


@pytest.mark.parametrize("name", ["x.png", "x.jpg"])
def test_what_cannot_be_freed_of_its_metadata_is_not_shown(tmp_path, name):
    Image.new("RGB", (8, 8), "red").save(tmp_path / name)
    pool = read_images(tmp_path, (3, 8, 8))
    content = (tmp_path / name).read_bytes()
    for cut in (20, 40, len(content) - 20):
        damaged = replace(pool, original=lambda *_, cut=cut: content[:cut])
        with pytest.raises(DataError, match=rf"{name} cannot be shown: it (is cut short|has no pixels)"):
            damaged.picture(0)
