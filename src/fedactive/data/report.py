"""How reading tells how far it is: images take a while the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = "Callable[[int, int], None]"  # told how many images are done, of how many


def say_nothing(done: int, total: int) -> None:
    """Report to nobody."""


def counting(total: int, report: Report) -> Callable[[int], None]:
    """Make a function that is told how many images more are done."""
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        report(done, total)

    return count
