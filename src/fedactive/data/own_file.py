"""A dataset of the user's own: an .npz file in MedMNIST's layout, given by its path in place of a name.

Two files may have the same name, so a run is named by the file's content. `own_images` reads the file.
"""

from __future__ import annotations

import re
from pathlib import Path

from fedactive.data.catalog import DATASETS
from fedactive.data.checksum import checksum
from fedactive.errors import ConfigurationError, DataError
from fedactive.files import expand_home

DIGITS = 12  # of the SHA-256, enough to tell files apart


def is_own_file(dataset: str) -> bool:
    return dataset not in DATASETS and dataset.lower().endswith(".npz")


def short_name(dataset: str) -> str:
    """Return the dataset's name as it appears in names of runs; for a file that is its stem."""
    if not is_own_file(dataset):
        return dataset
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(dataset).stem).strip("-")[:60] or "data"


def find_file(dataset: str, data_dir: Path, sha256: str = "") -> Path:
    """Find the file; if `sha256` is given, its content must match.

    It may then also be in the data folder: the content makes it the same file, not the path.
    """
    places = [expand_home(dataset), *([data_dir / Path(dataset).name] if sha256 else [])]
    there = [path for path in places if path.is_file()]
    if not there:
        besides = f", or the name of one in {data_dir}" if sha256 else ""
        raise ConfigurationError("dataset", dataset, f"the path of an .npz file that exists{besides}")
    for path in there:
        if sha256 in ("", short_digest(path)):
            return path
    raise DataError(
        f"{there[0]}: not the same file: its SHA-256 begins with {short_digest(there[0])}, expected {sha256}"
    )


def short_digest(path: Path) -> str:
    """Return the first digits of the SHA-256 of the file."""
    try:
        return checksum(path, "sha256").removeprefix("sha256:")[:DIGITS]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
