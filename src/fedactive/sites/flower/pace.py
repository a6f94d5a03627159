"""How often to look for what is to come: again and again while there is something, seldom when all is quiet.

Flower's own SuperNode sleeps 3 s between looks. So each message would wait for 1.5 s on average, and a round
of several sites, which ends with the last one, for nearly 3 s. And a message is announced before all of it is
there: who asks for a part that is still on its way asks again, in Flower after 1 s, then 2 s, then 4 s.
"""

from __future__ import annotations

import time

from flwr.supercore.inflatable import inflatable_utils as parts

FLOWERS_PAUSE = 3.0  # between looks; its other pauses are those in which it waits for our reply
SHORTEST_PAUSE = 0.1
GROWTH = 1.2  # after 20 looks, and 17 s, a pause of 0.1 s has become Flower's


class Pace:
    """Pauses that grow from the shortest one to a longest one."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.pause = longest

    def quicken(self) -> None:
        """Something has come, and more may come soon."""
        self.pause = SHORTEST_PAUSE

    def rest(self) -> None:
        time.sleep(self.pause)
        self.pause = min(self.pause * GROWTH, self.longest)


class FlowersTime:
    """Stands for the module `time` in the loop of Flower's SuperNode, which calls nothing else of it."""

    def __init__(self) -> None:
        self.pace = Pace(FLOWERS_PAUSE)

    def sleep(self, seconds: float) -> None:
        if seconds < FLOWERS_PAUSE:  # there is a message
            self.pace.quicken()
            time.sleep(SHORTEST_PAUSE)
        else:
            self.pace.rest()


def set_pace() -> None:
    """Have the SuperNode of this process keep this pace."""
    from flwr.supernode import start_client_internal as loop

    loop.time = FlowersTime()  # type: ignore[assignment, attr-defined]
    ask_again_soon()


def ask_again_soon() -> None:
    """Have this process ask again soon for a part on its way, then, as in Flower, less and less often."""
    for pull in (parts.pull_objects, parts.pull_and_inflate_object_from_tree):
        pull.__kwdefaults__ = {**(pull.__kwdefaults__ or {}), "initial_backoff": SHORTEST_PAUSE}
