"""The 8×8 handwritten digits that scikit-learn carries: a real dataset that needs no download."""

from __future__ import annotations

import numpy as np

from fedactive.data.readers import Parts


def read() -> Parts:
    """Every fifth sample is a test sample: the digits have no official split, and this is easy to repeat."""
    from sklearn.datasets import load_digits  # here, because it takes a second and most runs do without

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[:, np.newaxis]
    labels = digits.target
    test = np.arange(len(labels)) % 5 == 4
    return {
        "train_images": images[~test],
        "train_labels": labels[~test],
        "test_images": images[test],
        "test_labels": labels[test],
    }
