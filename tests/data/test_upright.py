"""Photos are turned as Pillow would turn them."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from fedactive.data.upright import SIDEWAYS, read_orientation, turn

PHOTO = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40)


def noted(number: int, form: str = "PNG") -> bytes:
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = number
    PHOTO.save(file, form, exif=exif)
    return file.getvalue()


def notes_last(png: bytes) -> bytes:
    """The same file with the camera's data behind the pixels."""
    chunks, at = [], 8
    while at < len(png):
        size = 12 + struct.unpack(">I", png[at : at + 4])[0]
        chunks.append(png[at : at + size])
        at += size
    chunks.sort(
        key=lambda chunk: [b"eXIf", b"IEND"].index(chunk[4:8]) if chunk[4:8] in (b"eXIf", b"IEND") else -1
    )
    return png[:8] + b"".join(chunks)


@pytest.mark.parametrize("number", range(10))
def test_it_is_upright(number):
    content = noted(number)
    for file in (content, notes_last(content), noted(number, "JPEG")):
        with Image.open(io.BytesIO(file)) as image:
            orientation = read_orientation(image)
            upright = ImageOps.exif_transpose(image)
            assert np.array_equal(turn(image, orientation), upright)
            assert (orientation in SIDEWAYS) == (upright.size != image.size)
            assert orientation == (number if 2 <= number <= 8 else None)
