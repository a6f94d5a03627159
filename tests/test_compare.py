"""Grids of real runs, as a user starts them."""

import json
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from fedactive.compare import Comparison, expand
from fedactive.errors import ConfigurationError, RunError
from fedactive.laboratory import run

SMALL = {
    "dataset": "digits", "clients": 3, "rounds": 2, "fl-rounds": 2, "local-epochs": 1, "local-only-epochs": 4,
    "augment": "none", "device": "cpu",
}  # fmt: skip


def command(folder, *more, **flags):
    options = [part for name, value in (SMALL | flags).items() for part in (f"--{name}", str(value))]
    return [sys.executable, "-m", "fedactive", "compare", "--runs-dir", str(folder), *options, *more]


def compare(folder, *more, **flags):
    return subprocess.run(command(folder, *more, **flags), capture_output=True, text=True, check=False)


def test_the_grid_is_every_combination_and_a_selector_is_only_for_those_that_have_a_choice():
    grid = expand(
        {"strategy": ["logo", "entropy", "random"], "selector": ["global", "local"], "seed": [1, 2]}
    )
    names = [(e.strategy, e.selector, e.seed) for e in grid]
    assert len(names) == len(set(names)) == 8
    assert ("entropy", "local", 2) in names
    assert ("logo", "both", 1) in names
    assert len(expand({"alpha": ["0.1", "inf"], "dataset": "digits"})) == 2
    with pytest.raises(ConfigurationError, match="did you mean 'logo'"):
        expand({"strategy": ["random", "lgo"]})


@pytest.mark.parametrize("name", ["rounds", "workers", "runs_dir"])
def test_what_does_not_tell_runs_apart_has_one_value(name):
    with pytest.raises(ConfigurationError, match=f"{name}: .* allowed is one value"):
        expand({"dataset": "digits", name: ["3", "5"]})


def test_a_runs_folder_that_is_a_file_is_told(tmp_path, small):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write in"):
        Comparison([small(runs_dir=tmp_path / "file")], 1).run()


def test_a_grid_runs_once_and_is_the_same_as_single_runs(tmp_path, small):
    done = compare(tmp_path / "grid", strategy="logo,random", seed="1,2", jobs=2)
    assert done.returncode == 0, done.stderr
    assert "4 runs, 0 done before, 2 at a time" in done.stderr
    assert "random, seed 2: accuracy" in done.stderr
    folders = sorted((tmp_path / "grid").glob("digits-*"))
    assert len(folders) == 4
    alone = run(small(strategy="logo", seed=2, rounds=2, fl_rounds=2, runs_dir=tmp_path / "alone"))
    together = pd.read_parquet(tmp_path / "grid" / alone.folder.name / "metrics.parquet")
    pd.testing.assert_frame_equal(alone.metrics, together)

    again = compare(tmp_path / "grid", strategy="logo,random", seed="1,2", jobs=2)
    assert "4 runs, 4 done before" in again.stderr
    assert again.stdout == done.stdout


def test_settings_have_tables_of_their_own(tmp_path):
    config = tmp_path / "grid.toml"
    config.write_text('strategy = "random"\nalpha = [0.1, inf]\n')
    done = compare(tmp_path / "runs", "--config", str(config), jobs=2)
    assert done.returncode == 0, done.stderr
    assert "alpha 0.1: test accuracy" in done.stdout
    assert "alpha inf: test accuracy" in done.stdout


def test_a_run_that_fails_is_reported_and_stops_nobody(tmp_path):
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "from dataclasses import dataclass\n"
        "from fedactive.query import Strategy, register\n"
        "@register\n@dataclass(frozen=True)\n"
        "class Broken(Strategy):\n"
        "    name, summary, paper, selectors, needs = 'broken', '', '', ('none',), frozenset()\n"
        "    def select(self, pool, budget, rng):\n"
        "        raise ValueError('nothing comes to mind')\n"
    )
    done = compare(tmp_path / "runs", "--plugin", str(plugin), strategy="broken,random", jobs=1)
    assert done.returncode == 1
    assert "failed: digits-broken-none-s1" in done.stderr
    assert "nothing comes to mind" in done.stderr
    assert "random" in done.stdout
    (log,) = (tmp_path / "runs" / "logs").glob("digits-broken-*.log")
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_grid_goes_on_where_it_was(tmp_path, how):
    flags = {"strategy": "random,entropy", "seed": "1,2", "jobs": 1}
    process = subprocess.Popen(
        command(tmp_path / "runs", **flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list((tmp_path / "runs").glob("*/done.json")):
        time.sleep(0.1)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "start the same command again to resume" in errors
    time.sleep(1)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/done.json")}
    assert 1 <= len(finished) < 4
    done = compare(tmp_path / "runs", **flags)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "runs").glob("*/done.json"))) == 4
    assert all(path.stat().st_mtime_ns == before for path, before in finished.items())
    assert all(json.loads(path.read_text())["al_rounds"] == 2 for path in finished)
