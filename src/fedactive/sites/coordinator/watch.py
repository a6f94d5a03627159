"""`fedactive coordinator run`: start a run or find it going on, and show how it is until it ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedactive.errors import RunError
from fedactive.laboratory.run import Result
from fedactive.record.run_folder import completed_rounds
from fedactive.sites.coordinator.coordinator import Coordinator
from fedactive.sites.coordinator.field import STOPPED
from fedactive.sites.coordinator.journal import read_status
from fedactive.sites.coordinator.plan import Plan
from fedactive.sites.flower.control import Control

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_LET_GO = 120.0


def run(coordinator: Coordinator, plan: Plan) -> Result:
    """The finished run. Ctrl-C leaves the run going on; the same command then finds it again."""
    folder = coordinator.run_folder(plan)
    if completed_rounds(folder) < plan.experiment.rounds:
        with display() as show, closing(coordinator.control()) as control:
            with coordinator.hold():  # or two who give the command at the same time would start two
                flower_run = find(coordinator, control, plan) or start(coordinator, control, plan)
            while control.is_going_on(flower_run):
                show(read_status(folder))
                time.sleep(SECONDS_BETWEEN_LOOKS)
            show(read_status(folder))
    if completed_rounds(folder) < plan.experiment.rounds:
        raise RunError(f"{how_it_ended(read_status(folder))} (see {coordinator.log_file(plan)})")
    return Result(folder)


def how_it_ended(status: dict[str, Any]) -> str:
    if status["phase"].startswith(STOPPED):  # for a reason that must be put right first
        return f"the run {status['phase']}"
    return "the run stopped before its end; the same command goes on from where it was"


def stop(coordinator: Coordinator, plan: Plan) -> None:
    """The run asks nothing of the sites any more; `run` goes on with it."""
    with closing(coordinator.control()) as control:
        flower_run = find(coordinator, control, plan)
        if flower_run is None:
            raise RunError("no run of this plan is going on")
        control.stop(flower_run)
    let_go(coordinator.run_folder(plan))


def is_held(folder: Path) -> bool:
    """Does a process still write in this run folder?"""
    with open(folder / ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def find(coordinator: Coordinator, control: Control, plan: Plan) -> int | None:
    """The Flower run that is going on: Flower itself remembers whose it is, however its start was cut short.

    One of an earlier SuperLink is dead, which Flower notices late.
    """
    found = None
    for run, superlink in control.going_on(plan.experiment.name).items():
        if superlink == coordinator.superlink()["pid"]:
            found = run
        else:
            control.stop(run)
    return found


def start(coordinator: Coordinator, control: Control, plan: Plan) -> int:
    coordinator.begin(plan)
    let_go(coordinator.run_folder(plan))
    return control.start(plan.experiment.name, coordinator.superlink()["pid"])


def let_go(folder: Path) -> None:
    """Wait for the process of a run that was stopped or whose SuperLink died: it hears of that later."""
    until = time.monotonic() + SECONDS_TO_LET_GO
    while is_held(folder):
        if time.monotonic() >= until:
            raise RunError(
                f"a process that Flower does not know goes on with this run already; it holds {folder}"
            )
        time.sleep(SECONDS_BETWEEN_LOOKS)


@contextmanager
def display() -> Iterator[Any]:
    """A live table on a terminal, a line at each change elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield lambda status: live.update(table_of(status))
        return
    last = ""
    told: set[str] = set()

    def line(status: dict[str, Any]) -> None:
        nonlocal last
        for item in status["dropped"]:
            if item["what"] not in told:
                told.add(item["what"])
                print(f"dropped: {item['what']}", flush=True)
        if status["phase"] != last:
            last = status["phase"]
            labelled = ", ".join(
                f"{name} {v.get('labelled_in_all', 0)}" for name, v in status["sites"].items()
            )
            print(f"{last}; labelled: {labelled or 'nothing'}", flush=True)

    yield line


def standing(site: dict[str, Any]) -> str:
    if site.get("dismissed"):
        return "dismissed"
    return "[green]online" if site.get("online") else "[red]away"


def table_of(status: dict[str, Any]) -> Group:
    table = Table("site", "", "labelled", "pending", "AL round", "FL round", "last seen")
    for name, values in status["sites"].items():
        seen = values.get("last_seen")
        table.add_row(
            Text(name),  # as it is: brackets in it are no markup
            standing(values),
            *(str(values.get(key, "")) for key in ("labelled_in_all", "pending", "al_round", "fl_round")),
            f"{max(0, time.time() - seen):.0f} s ago" if seen else "never",
        )
    lines = [Text(status["phase"])]
    if (accuracy := status.get("accuracy")) is not None and accuracy == accuracy:
        lines.append(Text(f"test accuracy of the global model: {accuracy:.1%}"))
    lines += [Text(f"dropped: {item['what']}", style="yellow") for item in status["dropped"][-3:]]
    return Group(table, *lines)
