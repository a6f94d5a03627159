"""Images of noise, for tests that show some."""

from pathlib import Path

import numpy as np

from fedactive.sites.images import ImagePool, read_images


def make_images(path: Path, count: int = 60, size: int = 24) -> ImagePool:
    rng = np.random.default_rng(0)
    np.savez(path, train_images=rng.integers(256, size=(count, size, size, 3), dtype=np.uint8))
    return read_images(path, (3, size, size))
