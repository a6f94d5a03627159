"""One picture: from a file to pixels in the shape that training wants."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from fedactive.data.upright import read_orientation, turn

Pixels = NDArray[np.uint8]
Shape = tuple[int, int, int]  # channels, height, width

BETWEEN_SITES = ("PNG", "JPEG")  # the formats of pictures that a site shows to people
Image.init()
# All that Pillow reads, but for programs that draw and for what it only recognises.
FORMATS = tuple(sorted(set(Image.OPEN) - {"EPS", "WMF", "MPEG", "BUFR", "GRIB", "HDF5"}))
ENDINGS = {ending for ending, form in Image.registered_extensions().items() if form in FORMATS}
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")  # modes without colours


def decode(path: Path, shape: Shape) -> tuple[Pixels, bytes] | str:
    """Read an image in the wanted shape, with a hash of what it shows; or return why it cannot be read."""
    seen = see(path)
    if isinstance(seen, str):
        return seen
    original = hashlib.sha256(f"{seen.mode} {seen.size} ".encode() + seen.tobytes())
    return fit(seen, shape), original.digest()


def see(path: Path, formats: Collection[str] = BETWEEN_SITES) -> Image.Image | str:
    """Read a picture as a browser shows it; or return why it cannot be read."""
    try:
        with Image.open(path, formats=tuple(formats)) as image:
            image.load()
            return _with_colours(turn(image, read_orientation(image)))
    except UnidentifiedImageError:
        return "it is not a PNG or JPEG image" if formats is BETWEEN_SITES else "it is not an image"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return "it is too large"
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damaged files
        return f"it cannot be decoded ({str(error).splitlines()[0] if str(error) else 'damaged'})"


def is_picture(path: Path) -> bool:
    """Return whether the end of its name is that of an image."""
    return path.suffix.lower() in ENDINGS


def _with_colours(image: Image.Image) -> Image.Image:
    """Replace numbers in a palette by their colours: people see colours."""
    if image.mode != "P":
        return image
    return image.convert("RGBA" if "transparency" in image.info else "RGB")


def fit(image: Image.Image, shape: Shape) -> Pixels:
    """Scale a picture to this shape, keeping its proportions; black replaces margins and transparency."""
    channels, height, width = shape
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip
        image = Image.fromarray((np.asarray(image, np.int64) // 257).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:  # what nobody sees is not to be learnt from
        image = Image.alpha_composite(Image.new("RGBA", image.size, "black"), image.convert("RGBA"))
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        # A very long strip is widened first, so that at least a line of it is left.
        breadth = max(image.width, -(-image.height // height)), max(image.height, -(-image.width // width))
        if breadth != image.size:
            image = image.resize(breadth)
        image = ImageOps.pad(image, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(height, width, channels).transpose(2, 0, 1)
