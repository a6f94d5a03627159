"""Embeddings on disk, in parts: what was computed once is never computed again, not even after a kill.

Each set of images has a folder, named by a hash of images, backbone and size. A part is a file with the
features of PART images, written under another name first: a file that is there is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedactive.errors import RunError
from fedactive.files import CACHE, cache_folder

PART = 512  # images; a kill costs at most the work on so many


class PartStore:
    """The parts of one set of images."""

    def __init__(self, images: Tensor, *what: object, place: Path | None = None) -> None:
        """Choose the folder, in `place`; `what` tells, besides the images, what decides the features."""
        found = hashlib.sha256(repr((tuple(images.shape), PART, *what)).encode())
        found.update(images.contiguous().cpu().numpy())  # type: ignore[arg-type]
        self.folder = (place or cache_folder("embeddings")) / found.hexdigest()[:32]

    def file(self, first: int) -> Path:
        return self.folder / f"{first:09}.npy"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, first: int, count: int) -> Tensor | None:
        """Return the features of the part that begins there; None if it is missing or damaged."""
        try:
            found = np.load(self.file(first), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        whole = found.ndim == 2 and len(found) == count and found.dtype == np.float32
        return torch.from_numpy(found) if whole else None

    def write(self, first: int, features: Tensor) -> None:
        partial = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # A name of its own: several processes may compute the same part.
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:
                partial = Path(file.name)
                np.save(file, features.numpy())
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.file(first))
        except OSError as error:
            if partial is not None:
                partial.unlink(missing_ok=True)
            raise RunError(
                f"cannot write embeddings to {self.folder}: {error.strerror}; "
                f"set the variable {CACHE} to a folder with room"
            ) from None
