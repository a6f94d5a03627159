"""Features of a site's images, kept by what each image shows: where a pool grows only new ones are computed.

There is a file for the pool and one for the test images, for each backbone and size. Features of images that
are gone are dropped from it.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedactive.errors import RunError

BYTES = 16  # of a hash


class FeatureStore:
    def __init__(self, file: Path) -> None:
        self.file = file

    def of(self, images: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the features (n, d) of images; `compute` is given those that are not kept."""
        keys = np.stack([hash_of(image) for image in images])
        kept_keys, kept = self.read()
        places = {key.tobytes(): k for k, key in enumerate(kept_keys)}
        new = [k for k, key in enumerate(keys) if key.tobytes() not in places]
        computed = compute(images[new] if len(new) < len(images) else images) if new else kept[:0]
        if len(new) == len(images):
            found = computed
        else:
            found = kept.new_empty(len(images), kept.shape[1])
            found[new] = computed
            old = [k for k, key in enumerate(keys) if key.tobytes() in places]
            found[old] = kept[[places[keys[k].tobytes()] for k in old]]
        if new or len(kept) != len(keys):
            self.write(keys, found)
        return found

    def read(self) -> tuple[np.ndarray, Tensor]:
        """Return hashes of images and their features; none where there is no file, or a damaged one."""
        try:
            with self.file.open("rb") as file, np.load(file, allow_pickle=False) as content:
                keys, features = content["keys"], content["features"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return np.zeros((0, BYTES), np.uint8), torch.zeros(0, 0)
        return keys, torch.from_numpy(features)

    def write(self, keys: np.ndarray, features: Tensor) -> None:
        partial = self.file.with_name(f".{self.file.name}.partial")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                np.savez(file, keys=keys, features=features.numpy())
            os.replace(partial, self.file)
        except OSError as error:
            with suppress(OSError):
                partial.unlink()
            raise RunError(f"cannot write {self.file}: {error.strerror}") from None


def hash_of(image: Tensor) -> np.ndarray:
    found = hashlib.sha256(repr(tuple(image.shape)).encode())
    found.update(image.contiguous().numpy())  # type: ignore[arg-type]
    return np.frombuffer(found.digest()[:BYTES], np.uint8)
