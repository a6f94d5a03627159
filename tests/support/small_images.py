"""Images of noise, for tests that show some."""

from pathlib import Path

import numpy as np
from PIL import Image

from fedactive.sites.site.image_pool import ImagePool
from fedactive.sites.site.read_images import read_images


def make_images(path: Path, count: int = 60, size: int = 24) -> ImagePool:
    """So many different ones, and one twice."""
    images = np.random.default_rng(0).integers(256, size=(count, size, size, 3), dtype=np.uint8)
    np.savez(path, train_images=np.concatenate([images, images[:1]]))
    return read_images(path, (3, size, size))


def make_folder(path: Path, *names: str) -> ImagePool:
    """A file for each name, each with its own picture."""
    for k, name in enumerate(names):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), k, np.uint8)).save(file, "PNG")
    return read_images(path, (1, 8, 8))
