"""Notice what no command may do: write outside its folder, or run what a file with Python objects says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Of Python's audit events those that change a path, and which of their arguments is that path, and its folder.
CHANGES = {
    "os.mkdir": [(0, 2)],
    "os.rename": [(0, 2), (1, 3)],
    "os.remove": [(0, 1)],
    "os.rmdir": [(0, 1)],
    "os.link": [(1, 3)],
    "os.symlink": [(1, 2)],
    "os.chmod": [(0, 2)],
    "os.truncate": [(0, None)],
    "sqlite3.connect": [(0, None)],
}
CODE = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn")


class Watch:
    """Python calls an audit hook for each such event; one cannot be taken away again, but it can rest."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self.seen: list[str] | None = None
        sys.addaudithook(self.look)

    @contextmanager
    def over(self, *allowed: Path) -> Iterator[list[str]]:
        """Yield the list of what is noticed meanwhile; below the folders `allowed`, everything may change."""
        self.allowed, self.seen = (*map(os.path.realpath, allowed), "/dev"), []
        try:
            yield self.seen
        finally:
            self.seen = None

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.seen is None:
            return
        if event in CODE:
            self.seen.append(f"{event} {arguments}")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING:
                self.require_inside(event, path)
        else:
            for path, folder in CHANGES.get(event, ()):
                self.require_inside(event, arguments[path], -1 if folder is None else arguments[folder])

    def require_inside(self, event: str, path: Any, folder: int = -1) -> None:
        if isinstance(path, int) or self.seen is None:
            return
        name = os.path.join(f"/proc/self/fd/{folder}" if folder >= 0 else "", os.fsdecode(path))
        parent, last = os.path.split(name.rstrip("/"))
        real = os.path.join(os.path.realpath(parent or "."), last)
        if not any(real == place or real.startswith(place + os.sep) for place in self.allowed):
            self.seen.append(f"{event} outside of the folder: {path!r}")
