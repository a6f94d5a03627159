"""A small dataset of real photographs: pieces of the two that come with scikit-learn."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_image

SIDE = 48


def pieces(name: str, count: int) -> np.ndarray:
    photograph = load_sample_image(name)
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, length - SIDE, count) for length in photograph.shape[:2])
    return np.stack([photograph[r : r + SIDE, c : c + SIDE] for r, c in zip(rows, columns, strict=True)])


def write_photographs(path: Path, each: int = 40) -> Path:
    """Write so many pieces of each photograph for training, and a quarter of that for tests."""
    images = np.concatenate([pieces(name, each + each // 4) for name in ("china.jpg", "flower.jpg")])
    labels = np.repeat([0, 1], each + each // 4)
    test = np.arange(len(labels)) % 5 == 4
    np.savez(
        path,
        train_images=images[~test],
        train_labels=labels[~test],
        test_images=images[test],
        test_labels=labels[test],
        classes=np.array(["temple", "flower"]),
    )
    return path
