"""One picture: from a file to pixels in the shape that training wants."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from fedactive.data import deep, dicom
from fedactive.data.deep import Deep, Window
from fedactive.data.upright import read_orientation, turn

BETWEEN_SITES = ("PNG", "JPEG")  # the formats of pictures that a site shows to people, beside DICOM
warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # such images are refused here
Image.init()
# All that Pillow reads, but for programs that draw and for what it only recognises.
FORMATS = tuple(sorted(set(Image.OPEN) - {"EPS", "WMF", "MPEG", "BUFR", "GRIB", "HDF5"}))
ENDINGS = {ending for ending, form in Image.registered_extensions().items() if form in FORMATS}
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")  # modes without colours

Pixels = NDArray[np.uint8]
Shape = tuple[int, int, int]  # channels, height, width


@dataclass(frozen=True)
class Decoded:
    pixels: Pixels  # in the wanted shape
    digest: bytes  # of what the picture shows
    deep: bool  # it has more than 8 bits


def decode(path: Path, shape: Shape, window: Window | None = None) -> Decoded | str:
    """Read an image in the wanted shape, a deep one in this window; or return why it cannot be read."""
    seen = see(path)
    if isinstance(seen, str):
        return seen
    return Decoded(fit(seen, shape, window), digest_of(seen), isinstance(seen, Deep))


def digest_of(seen: Image.Image | Deep) -> bytes:
    """Return a hash of what a picture shows, whatever else its file says."""
    if isinstance(seen, Deep):
        return seen.digest()
    return hashlib.sha256(f"{seen.mode} {seen.size} ".encode() + seen.tobytes()).digest()


def see(path: Path, formats: Collection[str] = BETWEEN_SITES) -> Image.Image | Deep | str:
    """Read a picture as a browser shows it, a deep one in full; or return why it cannot be read."""
    try:
        with path.open("rb") as file:
            return see_file(file, path.name, formats)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def see_file(
    file: BinaryIO, name: str = "", formats: Collection[str] = BETWEEN_SITES
) -> Image.Image | Deep | str:
    try:
        head = file.read(132)
        file.seek(0)
        if dicom.is_dicom(head):
            return dicom.see_dicom(file)
        with Image.open(file, formats=tuple(formats)) as image:
            if is_too_large(image):
                return "it is too large"
            image.load()
            turned = turn(image, read_orientation(image))
            return deep.of_png(turned) if turned.mode.startswith("I") else _with_colours(turned)
    except UnidentifiedImageError:
        if formats is not BETWEEN_SITES:
            return "it is not an image"
        kind = "DICOM file" if name.lower().endswith(dicom.ENDINGS) else "PNG or JPEG image"
        return f"it is not a {kind}"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return "it is too large"
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damaged files
        return f"it cannot be decoded ({str(error).splitlines()[0] if str(error) else 'damaged'})"


def is_too_large(image: Image.Image) -> bool:
    """Return whether Pillow takes it for a bomb; of one up to twice its limit it would only warn."""
    limit = Image.MAX_IMAGE_PIXELS
    return limit is not None and image.width * image.height > limit


def is_picture(path: Path) -> bool:
    """Return whether the end of its name is that of an image."""
    return path.suffix.lower() in ENDINGS


def _with_colours(image: Image.Image) -> Image.Image:
    """Replace numbers in a palette by their colours: people see colours."""
    if image.mode != "P":
        return image
    return image.convert("RGBA" if "transparency" in image.info else "RGB")


def fit(picture: Image.Image | Deep, shape: Shape, window: Window | None = None) -> Pixels:
    """Scale a picture to this shape, keeping its proportions; black replaces margins and transparency.

    Of a deep one training sees what is in the window, or else in the picture's own.
    """
    channels, height, width = shape
    image = picture.seen_through(window) if isinstance(picture, Deep) else picture
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
