"""One picture: from a file to pixels in the shape that training wants."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

Pixels = NDArray[np.uint8]
Shape = tuple[int, int, int]  # channels, height, width


def decode(path: Path, shape: Shape) -> tuple[Pixels, bytes] | str:
    """The image in the wanted shape with a hash of what the original shows, or why it cannot be read."""
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            seen = _with_colours(ImageOps.exif_transpose(image))  # as the browser shows it
            original = hashlib.sha256(f"{seen.mode} {seen.size} ".encode() + seen.tobytes())
            return fit(seen, shape), original.digest()
    except UnidentifiedImageError:
        return "it is not a PNG or JPEG image"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return "it is too large"
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damaged files
        return f"it cannot be decoded ({str(error).splitlines()[0] if str(error) else 'damaged'})"


def _with_colours(image: Image.Image) -> Image.Image:
    """With colours for pixels, where these are numbers in a palette: one sees colours."""
    if image.mode != "P":
        return image
    return image.convert("RGBA" if "transparency" in image.info else "RGB")


def fit(image: Image.Image, shape: Shape) -> Pixels:
    """In the wanted shape: scaled with its proportions, on black where these differ."""
    channels, height, width = shape
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip
        image = Image.fromarray((np.asarray(image, np.int64) // 257).clip(0, 255).astype(np.uint8))
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = ImageOps.pad(image, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(height, width, channels).transpose(2, 0, 1)
