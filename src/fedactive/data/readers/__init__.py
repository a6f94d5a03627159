"""Readers: one format, one module. Each turns one file into arrays and knows nothing of the other files.

A reader turns the arrays the right way round, images as (N, channels, height, width) and labels as (N,);
whether their type, size and values are right for the dataset is asked once, for every format, in `load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedactive.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"

Parts: TypeAlias = "dict[str, Array]"
"""What one file holds, by role: train_images, train_labels, test_images, test_labels, or some of these."""


def bad_file(path: Path, reason: str) -> DataError:
    """The error for a file that is there but cannot be used."""
    return DataError(f"{path}: {reason}")
