"""A lock that one process holds, on this machine or on another that shares the disk.

It ends with the process, however that ends. Shared disks keep such locks between machines, too, if they are
mounted with them (docs/CLUSTERS.md).
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

from fedactive.errors import RunError


def take_lock(path: Path) -> TextIO | None:
    """Lock this file until it is closed; None if another holds the lock. What is in the file stays."""
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - closing it gives the lock back
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise RunError(
            f"cannot lock {path}: {error.strerror}; choose a --runs-dir on a disk that has locks"
        ) from None
    return file
