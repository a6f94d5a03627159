"""How many sites can one coordinator serve, and what does a round of messages take: seconds, CPU, memory?

    python benchmarks/sites.py [--sites 5,20,50]

A real federation on this machine: a coordinator, and sites as processes of their own, over TLS on loopback.
Each site has a share of the digits and trains cnn4 (450 KB there, 450 KB back) on two labels, so that an FL
round is hardly more than its messages. A script labels on each site's page. Promised: 50 sites finish a run,
and a round of messages with five sites takes less than 3 s. All sites share this machine's cores and memory;
those of hospitals do not. CPU time is that of all processes together. Whatever else is at work on the machine
makes all of these more: the load before each run stands beside it. The result goes to results/sites.txt, too.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import flwr
import torch
import typer

from fedactive import __version__
from fedactive.experiment import Experiment
from fedactive.record.environment import cpu_name
from fedactive.sites.coordinator import launch
from fedactive.sites.coordinator.status import read_status
from fedactive.sites.rehearsal import Rehearsal

FEW_SITES, SECONDS = 5, 3.0  # of a round of messages
FL_ROUNDS = 10
PLAN = f"""
dataset = "digits"
augment = "none"
strategy = "entropy"
budget = "2/client"
rounds = 1
fl_rounds = {FL_ROUNDS}
local_epochs = 1
device = "cpu"

[field]
evaluate_every = {FL_ROUNDS}
"""
HEADING = (
    "sites  load  s to start  s to label  s per FL round  CPU s per FL round  MB per site  MB coordinator"
)
RESULT = Path(__file__).parent / "results" / "sites.txt"


def measure(sites: int) -> tuple[str, float]:
    """Return a line of the table, and the seconds of a round of messages; raises if a run does not finish."""
    with TemporaryDirectory() as folder:
        experiment = Experiment(dataset="digits", clients=sites, augment="none")
        rehearsal = Rehearsal(Path(folder) / "rehearsal", experiment)
        begun, load = time.monotonic(), os.getloadavg()[0]
        with rehearsal:
            plan = rehearsal.coordinator.keep_plan(PLAN)
            watcher = Watcher(rehearsal, rehearsal.coordinator.run_folder(plan))
            watcher.start()
            result = launch.run(rehearsal.coordinator, plan)
            watcher.join()
        taken = result.timings.set_index("phase")["seconds"]
        if set(result.selections["client"]) != set(range(sites)):
            raise RuntimeError(f"of {sites} sites not all took part")
    started = watcher.online - begun
    a_round = taken["training"] / FL_ROUNDS
    labelling, (site, coordinator) = taken["query and labelling"], watcher.megabytes
    line = f"{sites:5}{load:6.1f}{started:12.0f}{labelling:12.1f}{a_round:16.2f}{watcher.cpu_seconds:20.2f}"
    return f"{line}{site:13.0f}{coordinator:16.0f}", a_round


class Watcher(threading.Thread):
    """Notes when all sites are there; when they train, lets the people go home, and measures memory once."""

    def __init__(self, rehearsal: Rehearsal, run: Path) -> None:
        super().__init__(daemon=True)
        self.rehearsal = rehearsal
        self.run_folder = run

    def run(self) -> None:
        self.wait_for("choosing", "labelling", "training", "finished")
        self.online = time.monotonic()
        self.wait_for("training", "finished")
        for person in self.rehearsal.people:
            person.stop()
        running = dict(self.rehearsal.running)
        coordinator = megabytes(running.pop("coordinator").pid)
        sites = [megabytes(process.pid) for process in running.values()]
        self.megabytes = sum(sites) / len(sites), coordinator
        first, before = self.wait_for_round(2), self.count_cpu_seconds()
        last, after = self.wait_for_round(FL_ROUNDS), self.count_cpu_seconds()
        self.cpu_seconds = (after - before) / (last - first)

    def wait_for_round(self, number: int) -> int:
        """Return the FL round that is going on when at least this one has begun."""
        phase = read_status(self.run_folder).phase
        while phase.activity != "finished" and phase.fl_round < number:
            time.sleep(0.05)
            phase = read_status(self.run_folder).phase
        return phase.fl_round or FL_ROUNDS

    def count_cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.rehearsal.running.values())

    def wait_for(self, *activities: str) -> None:
        while read_status(self.run_folder).phase.activity not in activities:
            time.sleep(0.2)


def children(process: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True).stdout
    return list(map(int, found.split()))


def cpu_seconds(process: int) -> float:
    """CPU time so far of a process and those that it started, also of those that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(cpu_seconds, children(process)))


def megabytes(process: int) -> float:
    """Memory of a process and those that it started; what processes share is divided among them."""
    with open(f"/proc/{process}/smaps_rollup") as lines:
        own = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
    return own + sum(map(megabytes, children(process)))


def main(
    sites: Annotated[str, typer.Option(help="numbers of sites, one run for each")] = "5,20,50",
) -> None:
    versions = f"fedactive {__version__}, flwr {flwr.__version__}, torch {torch.__version__}"
    here = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores of {cpu_name()}"
    lines = [f"python benchmarks/sites.py    ({here})", versions, "", HEADING]
    rounds: dict[int, float] = {}
    for number in map(int, sites.split(",")):
        line, rounds[number] = measure(number)
        lines.append(line)
    if a_round := rounds.get(FEW_SITES):
        ok = a_round < SECONDS
        verdict = (
            f"{a_round:.2f} s with {FEW_SITES} sites, promised {SECONDS:g}   {'ok' if ok else 'TOO MUCH'}"
        )
        lines += ["", f"a round of messages takes {verdict}"]
    text = "\n".join(lines)
    print(text)
    RESULT.write_text(text + "\n")
    if a_round and not ok:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
