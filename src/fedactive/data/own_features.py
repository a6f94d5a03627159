"""Read features of the user's own: vectors that stand for images, texts or anything else, with labels.

An .npz file with train_features and test_features (n, d), train_labels, test_labels, and names of classes if
you like. Each feature is standardised by the mean and deviation of the training samples,

    x = (x - mean) / std        then all vectors are scaled to one length

which clients could do without showing any sample: they would add up sums and squares.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.data.dataset import Dataset
from fedactive.data.own_file import short_name
from fedactive.data.own_images import class_names, require_every_class
from fedactive.data.readers import Array, bad_file, medmnist
from fedactive.data.soundness import guarded, require_sound_labels

LENGTH = 10.0  # then the paper's learning rates suit a linear model
FEATURES = ("train_features", "test_features")


def has_features(path: Path) -> bool:
    return FEATURES[0] in guarded(medmnist.names, path)


def load_features(path: Path) -> Dataset:
    read = guarded(lambda file: medmnist.read_arrays(file, ("train_labels", "test_labels")), path)
    train, test = (read_features(path, name) for name in FEATURES)
    if train.shape[1] != test.shape[1]:
        raise bad_file(path, f"test_features have {test.shape[1]} columns, train_features {train.shape[1]}")
    classes = class_names(path)
    require_sound_labels(path, {"train": train, "test": test}, read, len(classes))
    require_every_class(path, read["train_labels"], classes)
    inputs = standardise(train, test)
    labels = [torch.from_numpy(read[f"{split}_labels"].astype(np.int64)) for split in ("train", "test")]
    return Dataset(short_name(str(path)), inputs[0], labels[0], inputs[1], labels[1], classes, (), ())


class Standardisation(NamedTuple):
    """x·scale + shift has mean 0 and deviation 1, feature by feature."""

    shift: Tensor
    scale: Tensor


def standardisation(train: Array) -> Standardisation:
    """Say how features are standardised, given those of the training samples."""
    return by_moments(train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64))


def by_moments(mean: Array, deviation: Array) -> Standardisation:
    """Say how features are standardised, given what those of all training samples are like."""
    std = np.where(deviation < 1e-6, 1.0, deviation)  # a constant feature would mean a division by 0
    return Standardisation(*(torch.from_numpy(part.astype(np.float32)) for part in (-mean / std, 1 / std)))


def standardise(train: Array, test: Array) -> tuple[Tensor, Tensor]:
    """Standardise float32 features, both by what the training samples are like, and scale them."""
    how = standardisation(train)
    return scaled(torch.from_numpy(train), how), scaled(torch.from_numpy(test), how)


def scaled(features: Tensor, how: Standardisation) -> Tensor:
    """Standardise features, and scale all to one length."""
    return F.normalize(torch.addcmul(how.shift, features, how.scale)).mul_(LENGTH)


def read_features(path: Path, name: str) -> Array:
    """Read an array of features as float32, as it stands in the file."""
    array = guarded(lambda file: medmnist.read_arrays(file, (name,)), path)[name]
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiu":
        shape = f"{array.dtype} {array.shape}"
        raise bad_file(path, f"{name} are {shape}, expected numbers, one row of features for each sample")
    found = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(found).all():
        row = int((~np.isfinite(found)).any(1).argmax())
        raise bad_file(path, f"{name} hold a number that is not finite, in row {row}")
    return found
