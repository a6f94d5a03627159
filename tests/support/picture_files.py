"""Small image files in folders: drawn, so that a model can tell their classes apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def drawing(label: int, number: int, size: tuple[int, int] = (12, 12), grey: bool = False) -> Image.Image:
    """Draw a bright bar, whose place tells the class, on noise."""
    rng = np.random.default_rng([label, number])
    width, height = size
    pixels = rng.integers(0, 90, (height, width, 3), dtype=np.uint8)
    bar = slice(width * label // 4, width * (label + 1) // 4)
    pixels[:, bar] = 200 + number % 50
    image = Image.fromarray(pixels)
    return image.convert("L") if grey else image


def write_folder(
    root: Path, *places: str, each: int = 8, size: tuple[int, int] = (12, 12), grey: bool = False
) -> Path:
    """Write so many images into each folder; the last part of its name is the class: ant, bee, cat or dog."""
    for place in places:
        label = ["ant", "bee", "cat", "dog"].index(Path(place).name)
        folder = root / place
        folder.mkdir(parents=True, exist_ok=True)
        first = 1000 * (places.index(place) + 1)
        for k in range(first, first + each):
            drawing(label, k, size, grey).save(folder / f"{k}.png")
    return root


def write_split(root: Path, **more: object) -> Path:
    """Write a folder with train and test, of two classes."""
    write_folder(root, "train/ant", "train/bee", **more)  # type: ignore[arg-type]
    return write_folder(root, "test/bee", "test/ant", **more)  # type: ignore[arg-type]
