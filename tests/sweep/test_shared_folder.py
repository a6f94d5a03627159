"""Several grids on one runs folder: each run is done once, by whoever is there."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from fedactive.errors import RunError
from fedactive.laboratory.progress_file import read_milestone
from fedactive.record import lock
from fedactive.record.run_folder import Run
from fedactive.registry import load_plugin
from fedactive.sweep.claim import claim_path, claim_run
from fedactive.sweep.comparison import Comparison
from fedactive.sweep.here import Here
from fedactive.sweep.job import Job
from support.commands import COMMAND

SLOW = Path(__file__).parents[1] / "support" / "slow_strategy.py"
ME = f"{socket.gethostname()}, process {os.getpid()}, since "


def start(folder, name, **flags):
    """Start a grid whose output goes to files, to be read while it runs."""
    small = {
        "dataset": "digits", "clients": 3, "rounds": 2, "fl-rounds": 2, "local-epochs": 1, "local-only-epochs": 4,
        "model": "mlp", "augment": "none", "device": "cpu", "workers": 1, "jobs": 1, "runs-dir": folder / "runs",
    }  # fmt: skip
    options = [word for flag, value in (small | flags).items() for word in (f"--{flag}", str(value))]
    with (folder / f"{name}.out").open("w") as out, (folder / f"{name}.err").open("w") as err:
        return subprocess.Popen([*COMMAND, "compare", *options], stdout=out, stderr=err)


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def starts(folder):
    return len(json.loads((folder / "environment.json").read_text())["starts"])


def test_two_grids_do_each_run_once_and_both_show_all(tmp_path):
    names = ("one", "other")
    grids = [start(tmp_path, name, strategy="random", seed="1,2", rounds=1) for name in names]
    assert [grid.wait(timeout=120) for grid in grids] == [0, 0]
    (table, same), said = ([(tmp_path / f"{n}.{end}").read_text() for n in names] for end in ("out", "err"))
    assert table == same
    assert re.search(r"random +│ +2 │", table)
    folders = list((tmp_path / "runs").glob("digits-*"))
    assert [starts(folder) for folder in folders] == [1, 1]
    ends = re.findall(r"seed \d: accuracy .*  done (elsewhere|in)", "".join(said))
    assert ends.count("in") == 2
    assert ends.count("elsewhere") >= 1


def test_a_grid_takes_over_from_one_that_was_killed(tmp_path, small):
    load_plugin(SLOW)
    long = small(strategy="slow", rounds=6, fl_rounds=2)
    flags = {"plugin": SLOW, "strategy": "slow", "rounds": 6}
    grids = {
        grid.pid: (grid, tmp_path / f"{name}.err")
        for name in "ab"
        for grid in [start(tmp_path, name, **flags)]
    }
    until(lambda: claim_path(long).exists() and claim_path(long).read_text())
    owner = int(re.search(r"process (\d+)", claim_path(long).read_text())[1])
    (killed, _), (heir, said) = grids.pop(owner), *grids.values()
    waits = rf"slow, seed 1: \d+/12 FL rounds  running elsewhere \(.*, process {owner}, since .*\)\nwaiting"
    until(lambda: re.search(waits, said.read_text()))
    until(lambda: (milestone := read_milestone(long)) and milestone.al_round >= 3)
    killed.kill()
    killed.wait()
    assert heir.wait(timeout=120) == 0
    resumed = re.search(
        r"resuming after (\d+) FL rounds", (tmp_path / "runs" / "logs" / f"{long.name}.log").read_text()
    )
    assert int(resumed[1]) >= 4
    assert starts(long.folder) == 2


def test_who_waits_can_leave_and_a_single_run_counts_as_well(tmp_path, small):
    claimed, alone = (small(strategy="random", rounds=2, fl_rounds=2, seed=seed) for seed in (1, 2))
    with claim_run(claimed), closing(Run(alone)):
        grid = start(tmp_path, "waiting", strategy="random", seed="1,2")
        until(lambda: "waiting for these" in (tmp_path / "waiting.err").read_text())
        said = (tmp_path / "waiting.err").read_text()
        assert f"random, seed 1: 0/4 FL rounds  running elsewhere ({ME}" in said
        assert "random, seed 2: 0/4 FL rounds  running elsewhere (another process)\n" in said
        grid.send_signal(signal.SIGINT)
        assert grid.wait(timeout=30) == 130
        assert "start the same command again" in (tmp_path / "waiting.err").read_text()
        assert isinstance(claim_run(claimed), str)  # still ours


class InUse:
    """An attempt that found the folder in use: somebody has started that run alone, at the same moment."""

    lost = ""

    def poll(self):
        return 75


def test_a_run_that_somebody_else_began_at_the_same_moment_has_not_failed(small):
    experiment = small()
    grid = Comparison([experiment], Here(1), Console(file=io.StringIO()))
    job = Job(experiment, "", attempt=InUse())
    assert job.take()
    with closing(Run(experiment)):
        grid.running.append(job)
        grid.look_here()
        assert (grid.running, grid.waiting) == ([], [job])
        assert job.elsewhere == "another process"
        assert grid.next_job() is None
    job.look()
    assert grid.next_job() is job
    assert not job.failed
    job.release()


def test_a_disk_without_locks_is_told(small, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    with pytest.raises(
        RunError, match=r"cannot lock .*\.lock: No locks available; choose a --runs-dir on a disk"
    ):
        Run(small())
