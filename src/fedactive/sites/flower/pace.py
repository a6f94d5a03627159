"""How often a SuperNode looks for messages: again and again while there are some, seldom when all is quiet.

Flower's own sleeps 3 s between looks. So each message would wait for 1.5 s on average, and a round of several
sites, which ends with the last one, for nearly 3 s.
"""

from __future__ import annotations

import time

FLOWERS_PAUSE = 3.0  # between looks; its other pauses are those in which it waits for our reply
SHORTEST_PAUSE = 0.1
GROWTH = 1.2  # after 20 looks, and 17 s, the pause is Flower's


class Pace:
    """Stands for the module `time` in Flower's loop, which calls nothing else of it."""

    def __init__(self) -> None:
        self.pause = FLOWERS_PAUSE

    def sleep(self, seconds: float) -> None:
        if seconds < FLOWERS_PAUSE:  # there is a message
            self.pause = SHORTEST_PAUSE
            time.sleep(SHORTEST_PAUSE)
        else:
            time.sleep(self.pause)
            self.pause = min(self.pause * GROWTH, FLOWERS_PAUSE)


def set_pace() -> None:
    """Have the SuperNode of this process keep this pace."""
    from flwr.supernode import start_client_internal as loop

    loop.time = Pace()  # type: ignore[assignment, attr-defined]
