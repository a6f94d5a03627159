"""Readers: one module for each format. A reader turns one file into arrays and knows no other file.

It returns images as (N, channels, height, width) and labels as (N,). Whether their type, size and values are
right for the dataset is checked once for all formats, in `soundness`.
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
    """Make the error for a file that exists but cannot be used."""
    return DataError(f"{path}: {reason}")
