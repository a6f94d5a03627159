"""Find a dataset of the user's own, whatever it is: a file, a folder, a table, or made in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from fedactive.data.dataset import Dataset
from fedactive.data.from_python import FromPython
from fedactive.data.own_file import (
    DIGITS,
    FROM_PYTHON,
    NPZ,
    TEST_SHARE,
    another_content,
    find_file,
    find_places,
)
from fedactive.data.own_npz import OwnNpz
from fedactive.data.own_pictures import OwnPictures
from fedactive.data.readers import Array
from fedactive.data.report import Report


class OwnData(Protocol):
    """What is asked of each kind; DataError if it is not sound."""

    @property
    def digest(self) -> str:
        """The first digits of a SHA-256 of its content."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def clients(self) -> tuple[tuple[str, ...], Array] | None:
        """The clients' names, and for each training sample its client's number; None if unknown."""

    def load(self, size: int, report: Report) -> Dataset:
        """Read it; files of images are resized to squares of that side, if it is not 0."""


def find_own(dataset: str, data_dir: Path, sha256: str = "", test_share: float = TEST_SHARE) -> OwnData:
    """Find it; if `sha256` is given, its content must match."""
    if dataset.startswith(FROM_PYTHON):
        return FromPython(dataset, sha256)
    if dataset.lower().endswith(NPZ):
        return OwnNpz(find_file(dataset, data_dir, sha256))
    found = [OwnPictures(path, test_share) for path in find_places(dataset, data_dir, sha256)]
    for one in found:
        if sha256[:DIGITS] in ("", one.digest):
            return one
    raise another_content(found[0].source, found[0].digest, sha256)
