"""Grids on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from fedactive.errors import ConfigurationError, UserError
from fedactive.laboratory.progress_file import read_milestone
from fedactive.laboratory.run import run
from fedactive.registry import load_plugin
from fedactive.sweep.errand import Errand
from fedactive.sweep.parcel import read_parcel, write_parcel
from fedactive.sweep.workplace import open_workplace
from support.commands import COMMAND
from support.ray_cluster import cluster

SLOW = Path(__file__).parents[1] / "support" / "slow_strategy.py"

needs_ray = pytest.mark.skipif(
    not find_spec("ray"), reason="Ray is missing: pip install 'fedactive[simulation]'"
)


def until(condition, process, seconds=200):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where two nodes are; the second says that it has GPUs."""
    with cluster(tmp_path_factory.mktemp("ray"), {"num_cpus": 1}, {"num_cpus": 2, "num_gpus": 2}) as there:
        yield there


@needs_ray
def test_runs_come_back_from_a_cluster_though_a_worker_is_killed(small, tmp_path, address, monkeypatch):
    load_plugin(SLOW)
    long = small(strategy="slow", rounds=10, fl_rounds=2)
    flags = {
        "dataset": "digits", "clients": 3, "rounds": 10, "fl-rounds": 2, "local-epochs": 1, "local-only-epochs": 4,
        "model": "mlp", "augment": "none", "strategy": "slow", "plugin": SLOW, "seed": 1, "runs-dir": tmp_path / "runs", "on": "ray", "device": "cpu",
    }  # fmt: skip
    options = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    log = tmp_path / "runs" / "logs" / f"{long.name}.log"
    grid = subprocess.Popen(
        [*COMMAND, "compare", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"RAY_ADDRESS": address},
    )
    until(lambda: (milestone := read_milestone(long)) and milestone.al_round >= 3, grid)
    os.kill(int(re.search(r"^on .*, process (\d+)$", log.read_text(), re.MULTILINE)[1]), signal.SIGKILL)
    out, err = grid.communicate(timeout=120)
    assert grid.returncode == 0, err
    assert "1 runs, 0 done before, 1 at a time" in err
    assert re.search(r"slow +│ +1 │", out)
    assert "the worker of this run died\n" in log.read_text()
    assert int(re.search(r"resuming after (\d+) FL rounds", log.read_text())[1]) >= 4
    assert f'runs_dir = "{tmp_path / "runs"}"' in (long.folder / "experiment.toml").read_text()
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    alone = run(small(strategy="slow", rounds=10, fl_rounds=2, runs_dir=tmp_path / "alone"))
    pd.testing.assert_frame_equal(alone.metrics, pd.read_parquet(long.folder / "metrics.parquet"))


ASSIGN = """
import sys
from fedactive.experiment import Experiment
from fedactive.sweep.job import Job
from fedactive.sweep.workplace import open_workplace
import ray

place = open_workplace("ray", "auto", None)
assert (place.device, place.gpus) == ("cuda", 2)
seeds = place.equip([Experiment(dataset="digits", device=place.device, seed=s, runs_dir=sys.argv[1]) for s in (1, 2)])
jobs = [Job(experiment, "") for experiment in seeds]
jobs[0].log.parent.mkdir(parents=True)
turns = [place.start(job) for job in jobs]
ray.wait([turn.result for turn in turns], num_returns=2)  # both hold what they have until we look
codes = [turn.poll() for turn in turns]
place.dismiss()
for job, code in zip(jobs, codes):
    print(code, job.last_line(), job.log.read_text().splitlines()[0])
"""


@needs_ray
def test_each_run_has_a_gpu_of_those_that_nodes_declare(tmp_path, address):
    """Without one to train on, runs fail; but they know which it was."""
    done = subprocess.run(
        [sys.executable, "-c", ASSIGN, str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        env=os.environ | {"RAY_ADDRESS": address},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(line[-5:] for line in lines) == ["GPU 0", "GPU 1"]
    assert all(line.startswith("2 fedactive: device: 'cuda' was given") for line in lines)


def test_an_errand_goes_on_from_what_came_back(small, tmp_path, monkeypatch):
    """As on a worker; with a plugin, and with the parts of a run that was stopped."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plugin = (tmp_path / "mine.py", b"from fedactive.query import STRATEGIES, register\n@register\nclass Mine(STRATEGIES['random']):\n    name = 'mine'\n")  # fmt: skip
    plugin[0].write_bytes(plugin[1])
    half = small(strategy="random", rounds=1)
    run(half)
    before = read_parcel(half, {})
    errand = Errand(small(strategy="random", rounds=2).to_toml(), before, [("mine.py", plugin[1])])
    assert errand.changed() == {}
    assert errand.run() == 0
    back = errand.changed()
    assert f"{half.name}/done.json" in back
    assert f"{half.name}/experiment.toml" not in back
    assert errand.changed() == {}
    assert (
        Errand(small(strategy="mine").to_toml(), {}, [("mine.py", plugin[1])]).experiment.strategy == "mine"
    )
    home = tmp_path / "home"
    write_parcel(home, before | back)
    alone = run(small(strategy="random", rounds=2, runs_dir=tmp_path / "alone"))
    pd.testing.assert_frame_equal(alone.metrics, pd.read_parquet(home / half.name / "metrics.parquet"))
    errand.leave()
    assert not errand.home.exists()


@needs_ray
@pytest.mark.parametrize("device", ["cuda:1", "cuda:0,cuda:1", ["cpu", "cuda"]])
def test_ray_chooses_the_gpus_itself(device):
    with pytest.raises(ConfigurationError, match="allowed is auto, cpu or cuda with --on ray"):
        open_workplace("ray", device, None)


def test_there_are_two_places():
    with pytest.raises(ConfigurationError, match=r"on: 'rya' was given, .* did you mean 'ray'"):
        open_workplace("rya", "auto", None)


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for module in ("fedactive.sweep.on_ray", "fedactive.laboratory.on_ray"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(UserError, match=r"ray is missing: pip install 'fedactive\[simulation\]' brings it"):
        open_workplace("ray", "auto", None)
