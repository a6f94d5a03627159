"""End the runs of a grid when the grid ends, even if it is killed: they hold one end of a pipe."""

from __future__ import annotations

import os
from threading import Thread

LIFELINE = "FEDACTIVE_LIFELINE"  # set for runs that must end when their standard input closes


def hold_lifeline() -> None:
    """In a run that a grid started, end this process when the grid ends."""

    def wait() -> None:
        os.read(0, 1)  # nothing is ever written; it returns when the other end closes
        os._exit(1)

    if os.environ.pop(LIFELINE, None):
        Thread(target=wait, daemon=True).start()
