"""Check what was read: refuse arrays of the wrong type, shape or number, and name the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedactive.data.readers import Array, Parts, bad_file
from fedactive.errors import DataError

T = TypeVar("T")


def guarded(read: Callable[[Path], T], path: Path) -> T:
    """Read the file; turn whatever goes wrong in the reader into a DataError."""
    try:
        return read(path)
    except DataError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside the libraries that parse it
        reason = " ".join(str(error).split()) or type(error).__name__
        raise bad_file(path, f"damaged, or not in the expected format ({reason})") from error


def require_sound(path: Path, parts: Parts, input_shape: tuple[int, ...], classes: int) -> None:
    """Refuse images of another shape (channels, height, width) and labels outside 0 to classes - 1."""
    for role, array in parts.items():
        if problem := _problem(role, array, input_shape, classes):
            raise bad_file(path, f"{role} {problem}")
    compare_counts(path, parts)


def _problem(role: str, array: Array, input_shape: tuple[int, ...], classes: int) -> str | None:
    """Say what is wrong with an array; None if nothing is."""
    if array.ndim == 0 or len(array) == 0:
        return "are empty"
    if role.endswith("images"):
        if array.dtype != np.uint8:
            return f"are {array.dtype}, expected uint8"
        if array.shape[1:] != input_shape:
            return f"are {form(array.shape[1:])}, expected {form(input_shape)}"
        return None
    return _problem_of_labels(array, classes)


def _problem_of_labels(array: Array, classes: int) -> str | None:
    if array.dtype.kind not in "iu":
        return f"are {array.dtype}, expected integers"
    if array.ndim != 1:
        return f"have the shape {array.shape}, expected one label per sample"
    if array.min() < 0 or array.max() >= classes:
        return f"run from {array.min()} to {array.max()}, expected 0 to {classes - 1}"
    return None


def require_sound_labels(path: Path, samples: Parts, parts: Parts, classes: int) -> None:
    """Refuse labels outside 0 to classes - 1, and others than one for each sample, by split."""
    for split, array in samples.items():
        labels = parts[f"{split}_labels"]
        problem = "are empty" if labels.size == 0 else _problem_of_labels(labels, classes)
        if problem:
            raise bad_file(path, f"{split}_labels {problem}")
        if len(array) != len(labels):
            raise bad_file(path, f"{len(array)} {split} samples but {len(labels)} {split} labels")


def form(input_shape: tuple[int, ...]) -> str:
    """Write (channels, height, width) as people do: 28x28x3."""
    channels, *sides = input_shape if len(input_shape) == 3 else (1, *input_shape)
    return "x".join(map(str, [*sides, channels]))


def compare_counts(where: Path, parts: Parts) -> None:
    for split in ("train", "test"):
        images, labels = parts.get(f"{split}_images"), parts.get(f"{split}_labels")
        if images is not None and labels is not None and len(images) != len(labels):
            raise bad_file(where, f"{len(images)} {split} images but {len(labels)} {split} labels")


def join(folder: Path, files: list[Parts]) -> Parts:
    """Join the parts of all files, those of the same role one after the other."""
    joined: Parts = {}
    for role in ("train_images", "train_labels", "test_images", "test_labels"):
        arrays = [parts[role] for parts in files if role in parts]
        count = sum(len(array) for array in arrays)
        # Into a new array, so that the result is contiguous whatever the memory order of the source.
        dtype = np.uint8 if role.endswith("images") else np.int64
        joined[role] = np.concatenate(
            arrays, out=np.empty((count, *arrays[0].shape[1:]), dtype), casting="same_kind"
        )
    compare_counts(folder, joined)
    return joined
