"""A dataset of the user's own, given by its path in place of a name.

It is an .npz file in MedMNIST's layout, a folder of images, or a CSV table of their paths. What was made in
Python (`fedactive.Dataset.of_samples`) is kept under a name as in python:flowers. Two may have the same name,
so a run is named by the content.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from fedactive.data.catalog import DATASETS
from fedactive.data.checksum import checksum
from fedactive.errors import ConfigurationError, DataError
from fedactive.files import expand_home

DIGITS = 12  # of the SHA-256, enough to tell files apart
NPZ, TABLE = ".npz", ".csv"
FROM_PYTHON = "python:"
TEST_SHARE = 0.2  # of images that are not dealt to training and tests


def is_own_file(dataset: str) -> bool:
    """Return whether it is the path of a file or folder, or was made in Python."""
    if dataset in DATASETS:
        return False
    named = dataset.lower().endswith((NPZ, TABLE)) or dataset.startswith(FROM_PYTHON)
    return named or os.sep in dataset or expand_home(dataset).is_dir()


def has_path(dataset: str) -> bool:
    return is_own_file(dataset) and not dataset.startswith(FROM_PYTHON)


def short_name(dataset: str) -> str:
    """Return the dataset's name as it appears in names of runs; for a file that is its stem."""
    if not is_own_file(dataset):
        return dataset
    path = Path(dataset.removeprefix(FROM_PYTHON))
    name = path.stem if path.suffix.lower() in (NPZ, TABLE) else path.name
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "data"


def find_places(dataset: str, data_dir: Path, sha256: str = "") -> list[Path]:
    """Return where it is; if `sha256` is given it may also be in the data folder.

    The content makes it the same dataset, not the path.
    """
    places = [expand_home(dataset), *([data_dir / Path(dataset).name] if sha256 else [])]
    is_file = dataset.lower().endswith((NPZ, TABLE))
    there = [path for path in places if (path.is_file() if is_file else path.is_dir())]
    if not there:
        kinds = {NPZ: "an .npz file", TABLE: "a CSV file"}
        what = kinds[Path(dataset).suffix.lower()] if is_file else "a folder of images"
        besides = f", or the name of one in {data_dir}" if sha256 else ""
        raise ConfigurationError("dataset", dataset, f"the path of {what} that exists{besides}")
    return there


def find_file(dataset: str, data_dir: Path, sha256: str = "") -> Path:
    """Find the .npz file; if `sha256` is given, its content must match."""
    there = find_places(dataset, data_dir, sha256)
    for path in there:
        if sha256 in ("", short_digest(path)):
            return path
    raise another_content(there[0], short_digest(there[0]), sha256)


def another_content(path: Path, found: str, expected: str) -> DataError:
    what = "file" if path.suffix.lower() in (NPZ, TABLE) else "folder"
    return DataError(f"{path}: not the same {what}: its SHA-256 begins with {found}, expected {expected}")


def short_digest(path: Path) -> str:
    """Return the first digits of the SHA-256 of the file."""
    try:
        return checksum(path, "sha256").removeprefix("sha256:")[:DIGITS]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
