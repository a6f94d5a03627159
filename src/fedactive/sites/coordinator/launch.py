"""`fedactive coordinator run` and `stop`: start a run or find it going on, and show it until it ends."""

from __future__ import annotations

import fcntl
import time
from contextlib import closing
from pathlib import Path

from fedactive.errors import RunError
from fedactive.record.run_folder import completed_rounds
from fedactive.record.run_tables import RunTables
from fedactive.sites.coordinator.display import open_display
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.coordinator.status import Status, read_status
from fedactive.sites.flower.control import Control

SECONDS_BETWEEN_POLLS = 1.0
SECONDS_TO_LET_GO = 120.0


def run(coordinator: Coordinator, plan: FieldPlan) -> RunTables:
    """Return the finished run. Ctrl-C leaves the run going on; the same command then finds it again."""
    folder = coordinator.run_folder(plan)
    if completed_rounds(folder) < plan.experiment.rounds:
        with open_display() as show, closing(coordinator.control()) as control:
            with coordinator.hold():  # or the same command, given twice at once, would start two runs
                flower_run = find(coordinator, control, plan) or start(coordinator, control, plan)
            while control.is_going_on(flower_run):
                show(read_status(folder))
                time.sleep(SECONDS_BETWEEN_POLLS)
            show(read_status(folder))
    if completed_rounds(folder) < plan.experiment.rounds:
        raise RunError(f"{explain_end(read_status(folder))} (see {coordinator.log_file(plan)})")
    return RunTables(folder)


def explain_end(status: Status) -> str:
    """Say why a run ended early, and what to do."""
    if status.phase.activity == "stopped":
        return f"the run {status.phase}"
    return "the run stopped before its end; the same command goes on from where it was"


def stop(coordinator: Coordinator, plan: FieldPlan) -> None:
    """Stop a run: it asks nothing more of the sites, until `run` goes on with it."""
    name = plan.experiment.name
    with coordinator.hold(), closing(coordinator.control()) as control:
        was_wanted = name in coordinator.wanted()
        coordinator.want(name, False)
        flower_run = find(coordinator, control, plan)
        if flower_run is not None:
            control.stop(flower_run)
        elif not was_wanted:
            raise RunError("no run of this plan is going on")
    wait_until_released(coordinator.run_folder(plan))


def find(coordinator: Coordinator, control: Control, plan: FieldPlan) -> int | None:
    """Find the Flower run of this plan that is going on.

    Flower itself remembers which plan a run is of, however its start was cut short. A run of an earlier
    SuperLink is dead, which Flower notices late: it is stopped here.
    """
    found = None
    for run, superlink in control.going_on(plan.experiment.name).items():
        if superlink == coordinator.superlink()["pid"]:
            found = run
        else:
            control.stop(run)
    return found


def start(coordinator: Coordinator, control: Control, plan: FieldPlan) -> int:
    coordinator.begin(plan)
    coordinator.want(plan.experiment.name, True)
    wait_until_released(coordinator.run_folder(plan))
    return control.start(plan.experiment.name, coordinator.superlink()["pid"])


def wait_until_released(folder: Path) -> None:
    """Wait for the process of a run that was stopped, or whose SuperLink died: it notices that late."""
    until = time.monotonic() + SECONDS_TO_LET_GO
    while is_held(folder):
        if time.monotonic() >= until:
            raise RunError(
                f"a process that Flower does not know goes on with this run already; it holds {folder}"
            )
        time.sleep(SECONDS_BETWEEN_POLLS)


def is_held(folder: Path) -> bool:
    """Does a process still write in this run folder?"""
    with open(folder / ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
