"""Runs that a grid started end with it, even where it is killed: they hold one end of a pipe of its own."""

from __future__ import annotations

import os
from threading import Thread

LIFELINE = "FEDACTIVE_LIFELINE"  # in the environment of runs that end when their standard input does


def hold_lifeline() -> None:
    """In a run of a grid: end when the grid is gone. A run started by hand depends on nobody."""

    def wait() -> None:
        os.read(0, 1)  # nothing is ever written: it returns when the other end is closed
        os._exit(1)

    if os.environ.pop(LIFELINE, None):
        Thread(target=wait, daemon=True).start()
