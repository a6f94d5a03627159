"""Read the images of a file of the user's own.

Nothing is known of it beforehand. All images must have the shape of the first, and pixels are normalised by
their own mean and standard deviation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedactive.data.dataset import Dataset
from fedactive.data.own_file import short_name
from fedactive.data.readers import Array, bad_file, medmnist
from fedactive.data.soundness import form, guarded, join, require_sound

SIDES = range(4, 1025)  # pixels; all models accept these


def load_images(path: Path) -> Dataset:
    parts = guarded(medmnist.read, path)
    images, labels = parts["train_images"], parts["train_labels"]
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        allowed = "(n, height, width) or (n, height, width, 3)"
        raise bad_file(path, f"train_images are {form(images.shape[1:])}, expected {allowed}")
    shape = images.shape[1:]
    if not all(side in SIDES for side in shape[1:]):
        sides = f"{SIDES[0]} to {SIDES[-1]} pixels"
        raise bad_file(path, f"train_images are {form(shape)}, expected {sides} in height and width")
    classes = class_names(path)
    require_sound(path, parts, shape, len(classes))
    require_every_class(path, labels, classes)
    mean, std = mean_and_std(images)
    return Dataset.of_images(short_name(str(path)), join(path, [parts]), classes, mean, std)


def class_names(path: Path) -> tuple[str, ...]:
    """Return the names in the file; without any, a number for each different training label."""
    names, labels = guarded(medmnist.read_classes, path)
    if names is None:
        different = np.unique(labels)
        if len(different) == 1 and labels.ndim == 1 and labels.dtype.kind in "iu":
            raise bad_file(path, f"train_labels are all {different[0]}, expected two classes or more")
        return tuple(map(str, range(max(2, len(different)))))
    if names.dtype.kind != "U" or names.ndim != 1:
        raise bad_file(path, f"classes are {names.dtype} {names.shape}, expected a list of names")
    if len(set(names)) != len(names) or len(names) < 2:
        counts = f"{len(names)} names, {len(set(names))} of them different"
        raise bad_file(path, f"classes are {counts}, expected two or more, all different")
    return tuple(map(str, names))


def require_every_class(path: Path, labels: Array, classes: tuple[str, ...]) -> None:
    """Refuse a class that has a name but no training samples: it cannot be learnt."""
    present = set(np.unique(labels).tolist())
    for c in range(len(classes)):
        if c not in present:
            raise bad_file(path, f"train_labels lack {c}, the class {classes[c]}; every class needs samples")


def mean_and_std(images: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and deviation per channel, of pixels in [0, 1]; by counts, so that machines agree."""
    values = np.arange(256) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        counts = np.zeros(256, np.int64)
        for image in images:  # one after the other: counting makes a copy with 8 bytes for each pixel
            counts += np.bincount(image[channel].ravel(), minlength=256)
        mean = float(counts @ values / counts.sum())
        variance = float(counts @ (values - mean) ** 2 / counts.sum())
        means.append(mean)
        stds.append(max(variance**0.5, 1 / 255))  # a constant channel would mean a division by 0
    return tuple(means), tuple(stds)
