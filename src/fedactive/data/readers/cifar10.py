"""CIFAR-10 batches in both official forms: fixed-length binary records and pickled Python dictionaries."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

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


class _StoredType:
    """Stands in for numpy.dtype; keeps the byte order and the code, such as < and i8."""

    def __init__(self, code: str, *_: object) -> None:
        self.order, self.code = "|", code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]


class _StoredArray:
    """Stands in for numpy.ndarray, whose own unpickling trusts every number in the file."""

    def __init__(self, *_: object) -> None:
        self.array: Array = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, data = state
        self.fill(data, kind, shape, "F" if column_major else "C")

    @classmethod
    def from_buffer(
        cls, data: bytes, kind: _StoredType, shape: tuple[int, ...], order: Literal["C", "F"]
    ) -> Self:
        stored = cls()
        stored.fill(data, kind, shape, order)
        return stored

    def fill(
        self, data: str | bytes, kind: _StoredType, shape: tuple[int, ...], order: Literal["C", "F"]
    ) -> None:
        code = f"{kind.order}{kind.code}"
        if not re.fullmatch("[<>=|][iu][1248]", code):
            raise pickle.UnpicklingError(f"an array of type {code} instead of integers")
        raw = data.encode("latin1") if isinstance(data, str) else data
        self.array = np.frombuffer(raw, code).reshape(shape, order=order)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return self.array


class _ArrayUnpickler(pickle._Unpickler):
    """Unpickles numbers, strings, containers and arrays of integers; refuses any other name in the file.

    A pickle may name any function and have it called, so a batch from an unknown source is a program. The
    unpickler in Python is as fast here as the one in C, and does not reserve gigabytes if a damaged file asks
    for them.
    """

    ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "dtype"): _StoredType,
        ("numpy", "ndarray"): _StoredArray,
        # The functions that rebuild an array, before and since numpy 2.
        ("numpy.core.multiarray", "_reconstruct"): _StoredArray,
        ("numpy._core.multiarray", "_reconstruct"): _StoredArray,
        ("numpy.core.numeric", "_frombuffer"): _StoredArray.from_buffer,
        ("numpy._core.numeric", "_frombuffer"): _StoredArray.from_buffer,
    }

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return self.ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it calls {module}.{name}, which is refused") from None
