"""One picture: from a file to pixels in the shape that training wants."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from fedactive.sites.site.image_pool import Pixels, Shape

# How a photo is turned upright, by the number that a camera gives the way it was held.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode(path: Path, shape: Shape) -> tuple[Pixels, bytes] | str:
    """Read an image in the wanted shape, with a hash of what it shows; or return why it cannot be read."""
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            seen = _with_colours(_upright(image))  # as the browser shows it
            original = hashlib.sha256(f"{seen.mode} {seen.size} ".encode() + seen.tobytes())
            return fit(seen, shape), original.digest()
    except UnidentifiedImageError:
        return "it is not a PNG or JPEG image"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return "it is too large"
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damaged files
        return f"it cannot be decoded ({str(error).splitlines()[0] if str(error) else 'damaged'})"


def _upright(image: Image.Image) -> Image.Image:
    """Turn a photo upright. Pillow's exif_transpose would rewrite other camera data, and fail on odd ones."""
    image.load()
    method = UPRIGHT.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return image if method is None else image.transpose(method)


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
