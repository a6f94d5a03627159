"""What an attack must not do: grow the memory, or end in a traceback."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_GROWTH = 64 * 2**20  # bytes


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Tracebacks(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))


@contextmanager
def unharmed() -> Iterator[None]:
    """Check that what is done meanwhile logs no traceback and leaves the process about as large as it was."""
    tracebacks, root = Tracebacks(), logging.getLogger()
    handlers, root.handlers = root.handlers, [tracebacks]  # pytest's would keep every record
    before = resident_bytes()
    try:
        yield
    finally:
        root.handlers = handlers
    assert not tracebacks.found, tracebacks.found[0]
    assert resident_bytes() - before < MOST_GROWTH
