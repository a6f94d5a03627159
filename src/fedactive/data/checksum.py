"""Checksums of files; a file that did not change is hashed only once."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


def checksum(path: Path, algorithm: str) -> str:
    """Hash a file, as "sha256:..."; OSError if it cannot be read."""
    status = path.stat()
    return _digest(path.resolve(), algorithm, status.st_size, status.st_mtime_ns)


def is_official(path: Path, published: str) -> bool:
    """Return whether the file has the published checksum; False if it cannot be read."""
    try:
        return checksum(path, published.partition(":")[0]) == published
    except OSError:
        return False


@cache
def _digest(path: Path, algorithm: str, size: int, modified: int) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"
