"""MedMNIST 2D: one .npz per dataset with train, val and test arrays; the validation split is not used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedactive.data.readers import Array, Parts, bad_file


def read(path: Path) -> Parts:
    parts = read_arrays(path, ("train_images", "train_labels", "test_images", "test_labels"))
    return {
        role: _channels_first(array) if role.endswith("images") else array for role, array in parts.items()
    }


def names(path: Path) -> list[str]:
    """List the names of all arrays in the file."""
    with _open(path) as content:
        return list(content)


def read_arrays(path: Path, roles: Iterable[str]) -> Parts:
    parts: Parts = {}
    with _open(path) as content:
        for role in roles:
            if role not in content:
                raise bad_file(path, f"the array {role} is missing")
            array = _array(path, content, role)
            parts[role] = _flat(array) if role.endswith("labels") else array
    return parts


def read_if_there(path: Path, roles: Iterable[str]) -> Parts:
    """Read those of the arrays that the file has."""
    there = names(path)
    return read_arrays(path, [role for role in roles if role in there])


def read_classes(path: Path) -> tuple[Array | None, Array]:
    """Read the class names, which MedMNIST's own files lack (None), and the labels of the training images."""
    with _open(path) as content:
        names = _array(path, content, "classes") if "classes" in content else None
        return names, _flat(_array(path, content, "train_labels"))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":  # numpy would take it for a pickle and suggest to allow pickles
            raise bad_file(path, "not an .npz archive")
        file.seek(0)
        yield np.load(file, allow_pickle=False)


def _array(path: Path, content: Any, name: str) -> Array:
    try:
        return np.asarray(content[name])
    except ValueError as error:  # e.g. Python objects, which numpy makes of images of different sizes
        raise bad_file(path, f"the array {name} cannot be read ({' '.join(str(error).split())})") from error


def _channels_first(images: Array) -> Array:
    if images.ndim == 3:
        return images[:, np.newaxis]
    return np.moveaxis(images, -1, 1) if images.ndim == 4 else images


def _flat(labels: Array) -> Array:
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
