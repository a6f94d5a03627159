"""CIFAR-10 batches in both official forms: fixed-length binary records and pickled Python dictionaries."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from fedactive.data.readers import Array, Parts, bad_file

PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS  # a label byte, then the red, the green and the blue plane


def read_binary(path: Path) -> Parts:
    data = np.fromfile(path, dtype=np.uint8)
    if data.size % RECORD:
        raise bad_file(
            path, f"{data.size} bytes are not a whole number of {RECORD}-byte records; the file is truncated"
        )
    records = data.reshape(-1, RECORD)
    return _parts(path, records[:, 1:], records[:, 0])


def read_pickle(path: Path) -> Parts:
    with path.open("rb") as file:
        try:
            # The official batches were written by Python 2, whose strings need an encoding to be read.
            content = _ArrayUnpickler(file, encoding="latin1").load()
        except pickle.UnpicklingError as error:
            raise bad_file(path, f"not a CIFAR-10 batch: {error}") from error
    if not isinstance(content, dict) or not {"data", "labels"} <= content.keys():
        raise bad_file(path, "not a CIFAR-10 batch: no dictionary with 'data' and 'labels'")
    images, labels = np.asarray(content["data"]), np.asarray(content["labels"])
    if images.ndim != 2 or images.shape[1] != PIXELS:
        raise bad_file(path, f"'data' has the shape {images.shape}, expected (N, {PIXELS})")
    return _parts(path, images, labels)


def _parts(path: Path, images: Array, labels: Array) -> Parts:
    split = "test" if path.name.startswith("test") else "train"
    return {f"{split}_images": images.reshape(-1, 3, 32, 32), f"{split}_labels": labels}


class _ArrayUnpickler(pickle._Unpickler):
    """Unpickles numbers, strings, containers and numpy arrays; any other name in the file is refused.

    A pickle may name any function and have it called, so a batch from an unknown source is a program. The
    unpickler written in Python is as fast here, and unlike the one in C it does not reserve gigabytes when a
    damaged file asks for them.
    """

    # The two functions that rebuild an array, asked from numpy itself: their module moved in numpy 2.
    _REBUILD = np.empty(0).__reduce__()[0]
    _FROM_BUFFER = np.empty(1).__reduce_ex__(5)[0]
    _ALLOWED: dict[tuple[str, str], Any] = {  # noqa: RUF012
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): _REBUILD,
        ("numpy._core.multiarray", "_reconstruct"): _REBUILD,
        ("numpy.core.numeric", "_frombuffer"): _FROM_BUFFER,
        ("numpy._core.numeric", "_frombuffer"): _FROM_BUFFER,
    }

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it calls {module}.{name}, which is refused") from None
