"""How often somebody may do something: so many at once, and so many more in a minute."""

from __future__ import annotations

import threading
import time

MOST_KNOWN = 10_000


class Allowance:
    """A bucket for each name, which fills up over time and of which every deed takes one measure."""

    def __init__(self, at_once: int, per_minute: float) -> None:
        self.at_once = at_once
        self.per_second = per_minute / 60
        self.left: dict[str, tuple[float, float]] = {}  # measures, and when that was
        self.lock = threading.Lock()

    def take(self, name: str) -> int:
        """Take one and return 0; or take none and return the seconds until there is one."""
        with self.lock:
            now = time.monotonic()
            if len(self.left) >= MOST_KNOWN:
                full = [other for other in self.left if self._now(other, now) == self.at_once]
                for other in full:
                    del self.left[other]
            left = self._now(name, now)
            if left < 1:
                return int((1 - left) / self.per_second) + 1
            self.left[name] = left - 1, now
            return 0

    def _now(self, name: str, now: float) -> float:
        left, then = self.left.get(name, (self.at_once, now))
        return min(self.at_once, left + (now - then) * self.per_second)
