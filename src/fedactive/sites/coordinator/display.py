"""Show how a run is going: a live table on a terminal, a line at each change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedactive.sites.coordinator.status import Status

DROPPED_SHOWN = 3


@contextmanager
def open_display() -> Iterator[Callable[[Status], None]]:
    """Yield a function that shows a status; call it as often as there is a new one."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield StatusLines().show
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield lambda status: live.update(make_table(status))


class StatusLines:
    """Prints what is new since the last status."""

    def __init__(self) -> None:
        self.phase: object = None
        self.dropped: set[str] = set()

    def show(self, status: Status) -> None:
        for item in status.dropped:
            if item["what"] not in self.dropped:
                self.dropped.add(item["what"])
                print(f"dropped: {item['what']}", flush=True)
        if status.phase != self.phase:
            self.phase = status.phase
            counts = [f"{name} {site.get('labelled_in_all', 0)}" for name, site in status.sites.items()]
            print(f"{status.phase}; labelled: {', '.join(counts) or 'nothing'}", flush=True)


def make_table(status: Status) -> Group:
    table = Table("site", "", "labelled", "pending", "AL round", "FL round", "last seen")
    for name, site in status.sites.items():
        seen = site.get("last_seen")
        table.add_row(
            Text(name),  # as it is: brackets in it are no markup
            describe_presence(site),
            *(str(site.get(key, "")) for key in ("labelled_in_all", "pending", "al_round", "fl_round")),
            f"{max(0, time.time() - seen):.0f} s ago" if seen else "never",
        )
    lines = [Text(str(status.phase))]
    if status.accuracy is not None and status.accuracy == status.accuracy:
        of = f"AL round {status.measured_in}" if status.measured_in else "the global model"
        lines.append(Text(f"test accuracy of {of}: {status.accuracy:.2%} (mean of its last FL rounds)"))
    lines += [Text(f"dropped: {item['what']}", style="yellow") for item in status.dropped[-DROPPED_SHOWN:]]
    return Group(table, *lines)


def describe_presence(site: dict[str, Any]) -> str:
    if site.get("dismissed"):
        return "dismissed"
    return "[green]online" if site.get("online") else "[red]away"
