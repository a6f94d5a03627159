"""How a photo is turned upright: the camera notes in it how it was held (EXIF)."""

from __future__ import annotations

from PIL import ExifTags, Image

# By the number that a camera gives the way it was held.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = (5, 6, 7, 8)  # these change height and width


def read_orientation(image: Image.Image) -> int | None:
    """Return the number of the way the camera was held, if the photo has to be turned."""
    noted = image.getexif().get(ExifTags.Base.Orientation)
    return int(noted) if noted in UPRIGHT else None


def turn(image: Image.Image, orientation: int | None) -> Image.Image:
    """Turn a photo. Pillow's exif_transpose would rewrite other camera data, and fail on odd ones."""
    return image if orientation is None else image.transpose(UPRIGHT[orientation])
