"""Handwritten digits of 8×8 pixels and 17 grey levels: a real dataset that needs no download.

Alpaydin & Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, CC BY 4.0. The
file holds the test part of it, in the same order as scikit-learn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedactive.data.readers import Parts

FILE = Path(__file__).with_suffix(".npz")


def read() -> Parts:
    """Read the digits. They have no official split: every fifth sample is a test sample, easy to repeat."""
    with np.load(FILE) as digits:
        images = np.rint(digits["images"] * (255 / 16)).astype(np.uint8)[:, np.newaxis]
        labels = digits["labels"].astype(np.int64)
    test = np.arange(len(labels)) % 5 == 4
    return {
        "train_images": images[~test],
        "train_labels": labels[~test],
        "test_images": images[test],
        "test_labels": labels[test],
    }
