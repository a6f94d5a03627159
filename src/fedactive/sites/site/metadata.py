"""A picture without what its file says about it: who, when, where, with which camera; and without thumbnails.

Pixels are not encoded anew: of a PNG file some chunks are left out, of a JPEG file some segments, and what
follows its end. What is kept has no room for words. Colour profiles (ICC) go, too: they can hold any text.
Training does not apply them either. Of an animated PNG the first frame is left, which training sees.

A photo that has to be turned stays upright. In a JPEG file a note of nothing but the orientation replaces the
camera's. Not every browser heeds such a note in a PNG file, so its pixels are turned and encoded anew.
"""

from __future__ import annotations

import io
import re
import zlib

from PIL import Image

from fedactive.data.upright import read_orientation, turn
from fedactive.errors import DataError

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"  # with these bytes their files begin

# The chunks that decide what one sees, and how long they can be.
CHUNKS = {b"IHDR": 13, b"PLTE": 768, b"tRNS": 256, b"IDAT": 2**31}
CHUNKS |= {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"cICP": 4}  # colours, in numbers
NOTES = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")  # chunks in which an orientation may be noted

MARKER = re.compile(rb"\xff([\x02-\xcf\xd8-\xfe])")  # not those that may stand in the middle of pixels
END, SCAN = 0xD9, 0xDA  # pixels follow a scan's segment
TABLES = {*range(0xC0, 0xD0), *range(SCAN, 0xDE)}  # segments that decoding needs
# Of those that applications put in, what colours depend on: before a thumbnail may come.
APPLICATIONS = {0xE0: (b"JFIF\0", 12, b"\0\0"), 0xEE: (b"Adobe", 12, b"")}
EXIF = 0xE1
ORIENTATION = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0%c\0\0\0\0\0\0"


def without_metadata(content: bytes) -> bytes:
    """Return a PNG or JPEG file with the same picture and nothing else; DataError if it is damaged."""
    is_png = content.startswith(PNG)
    stripped = strip_png(content) if is_png else strip_jpeg(content)
    if stripped == content or (is_png and not any(kind in content for kind in NOTES)):
        return stripped  # without decoding it, which takes long
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
            orientation = read_orientation(image)
        if orientation is None:
            return stripped
        return turn_png(stripped, orientation) if is_png else note_in_jpeg(stripped, orientation)
    except Exception as error:  # Pillow does not say which it raises for damaged files
        raise DataError(f"it cannot be decoded ({type(error).__name__})") from None


def strip_png(content: bytes) -> bytes:
    kept, position, kinds = [PNG], len(PNG), set()
    while position < len(content):
        length, kind = int.from_bytes(content[position : position + 4]), content[position + 4 : position + 8]
        if kind == b"IEND":
            break
        data = content[position + 8 : position + 8 + length]
        if len(data) < length:
            raise DataError("it is cut short")
        if length <= CHUNKS.get(kind, -1):
            kept.append(chunk(kind, data))
            kinds.add(kind)
        position += 12 + length
    if not {b"IHDR", b"IDAT"} <= kinds:
        raise DataError("it has no pixels")
    return b"".join([*kept, chunk(b"IEND", b"")])


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4) + kind + data + zlib.crc32(data, zlib.crc32(kind)).to_bytes(4)


def turn_png(content: bytes, orientation: int) -> bytes:
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
        turn(image, orientation).save(buffer, "PNG", compress_level=1)  # the fastest
    return buffer.getvalue()


def strip_jpeg(content: bytes) -> bytes:
    kept, position = [JPEG], len(JPEG)
    while found := MARKER.search(content, position):
        code, position = found[1][0], found.end()
        if code == END:
            return b"".join([*kept, bytes([0xFF, END])])
        length = int.from_bytes(content[position : position + 2])
        data = content[position + 2 : position + length]
        position += length
        if length < 2 or position > len(content):
            break
        if code in TABLES:
            kept.append(segment(code, data))
        elif code in APPLICATIONS:
            begin, size, rest = APPLICATIONS[code]
            if data.startswith(begin) and len(data) >= size + len(rest):
                kept.append(segment(code, data[:size] + rest))
        if code == SCAN and (following := MARKER.search(content, position)):
            kept.append(content[position : following.start()])
            position = following.start()
    raise DataError("it is cut short")


def segment(code: int, data: bytes) -> bytes:
    return bytes([0xFF, code]) + (len(data) + 2).to_bytes(2) + data


def note_in_jpeg(content: bytes, orientation: int) -> bytes:
    return JPEG + segment(EXIF, ORIENTATION % orientation) + content[len(JPEG) :]
