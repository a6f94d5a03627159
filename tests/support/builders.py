"""Small datasets in the real file formats: a few random images each, written the way the authors did."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io

Array = npt.NDArray[Any]


def images(count: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def labels(count: int, classes: int = 10) -> Array:
    return np.arange(count) % classes


def checksum(content: bytes, algorithm: str = "md5") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


# CIFAR-10 ------------------------------------------------------------------------------------------------

CIFAR10_TRAIN = [f"data_batch_{number}" for number in range(1, 6)]


def cifar10_record_bytes(pictures: Array, classes: Array) -> bytes:
    return np.column_stack([classes.astype(np.uint8), pictures.reshape(len(pictures), -1)]).tobytes()


def python2_pickle(pictures: Array, classes: Array) -> bytes:
    """A CIFAR-10 batch as Python 2 pickled it: byte strings without encoding and numpy's old module names."""
    data = pictures.tobytes()
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    shape = b"J" + struct.pack("<i", len(pictures)) + b"J" + struct.pack("<i", 3072) + b"\x86"
    state = b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<i", len(data)) + data + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([int(label)]) for label in classes) + b"e"
    return b"\x80\x02}(U\x04data" + empty + state + b"U\x06labels" + numbers + b"u."


def write_cifar10_binary(data_dir: Path, per_batch: int = 4) -> tuple[Array, Array]:
    """All six files; returns the training images and labels in order."""
    pictures, classes = images(5 * per_batch, 3, 32, 32), labels(5 * per_batch)
    folder = data_dir / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate(CIFAR10_TRAIN):
        part = slice(number * per_batch, (number + 1) * per_batch)
        (folder / f"{name}.bin").write_bytes(cifar10_record_bytes(pictures[part], classes[part]))
    (folder / "test_batch.bin").write_bytes(cifar10_record_bytes(images(3, 3, 32, 32, seed=1), labels(3)))
    return pictures, classes


def write_cifar10_python(data_dir: Path, per_batch: int = 4) -> tuple[Array, Array]:
    pictures, classes = images(5 * per_batch, 3, 32, 32), labels(5 * per_batch)
    folder = data_dir / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for number, name in enumerate(CIFAR10_TRAIN):
        part = slice(number * per_batch, (number + 1) * per_batch)
        (folder / name).write_bytes(python2_pickle(pictures[part], classes[part]))
    (folder / "test_batch").write_bytes(python2_pickle(images(3, 3, 32, 32, seed=1), labels(3)))
    return pictures, classes


# SVHN, MedMNIST and idx ----------------------------------------------------------------------------------


def write_svhn(path: Path, pictures: Array, digits: Array) -> None:
    """`pictures` as (N, channels, height, width); the digit 0 is stored as 10."""
    stored = np.where(digits == 0, 10, digits).astype(np.uint8)[:, np.newaxis]
    scipy.io.savemat(path, {"X": pictures.transpose(2, 3, 1, 0), "y": stored}, do_compression=True)


def medmnist_arrays(count: int = 6, channels: int = 3, classes: int = 7) -> dict[str, Array]:
    shape = (28, 28, 3) if channels == 3 else (28, 28)
    arrays: dict[str, Array] = {}
    for seed, split in enumerate(("train", "val", "test")):
        arrays[f"{split}_images"] = images(count + seed, *shape, seed=seed)
        arrays[f"{split}_labels"] = labels(count + seed, classes).astype(np.uint8)[:, np.newaxis]
    return arrays


def idx_bytes(array: Array) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, packed: bool, train: int = 5, test: int = 3) -> None:
    folder.mkdir(parents=True)
    for prefix, count in (("train", train), ("t10k", test)):
        for name, array in (
            (f"{prefix}-images-idx3-ubyte", images(count, 28, 28)),
            (f"{prefix}-labels-idx1-ubyte", labels(count)),
        ):
            content = idx_bytes(array)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
