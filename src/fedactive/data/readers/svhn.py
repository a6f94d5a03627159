"""SVHN cropped digits: MATLAB files with images in X (height, width, colour, N) and labels in y (N, 1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedactive.data.readers import Parts, bad_file


def read(path: Path) -> Parts:
    from scipy.io import loadmat  # here, because importing it is slow and only this format needs it

    content = loadmat(path, variable_names=["X", "y"])
    for variable in ("X", "y"):
        if variable not in content:
            raise bad_file(path, f"the variable {variable} is missing")
    images, labels = content["X"], content["y"]
    if images.ndim == 4:
        images = images.transpose(3, 2, 0, 1)
    labels = labels.reshape(-1)
    split = "test" if path.name.startswith("test") else "train"
    # MATLAB counts from one, so the digit 0 carries the label 10.
    return {f"{split}_images": images, f"{split}_labels": np.where(labels == 10, 0, labels)}
