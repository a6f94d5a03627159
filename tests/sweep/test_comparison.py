"""Grids of real runs, as a user starts them."""

import fcntl
import io
import json
import re
import signal
import subprocess
import time
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from rich.console import Console

import fedactive.sweep.comparison
from fedactive.cli.tables import print_result
from fedactive.errors import RunError
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from fedactive.registry import load_plugin
from fedactive.sweep import here
from fedactive.sweep.comparison import Comparison, progress_line
from fedactive.sweep.here import Here
from fedactive.sweep.job import Job
from support.commands import COMMAND, cli

SMALL = {
    "dataset": "digits", "clients": 3, "rounds": 2, "fl-rounds": 2, "local-epochs": 1, "local-only-epochs": 4,
    "model": "mlp", "augment": "none", "device": "cpu", "workers": 1,
}  # fmt: skip


def command(folder, *more, **flags):
    options = [part for name, value in (SMALL | flags).items() for part in (f"--{name}", str(value))]
    return ["compare", "--runs-dir", str(folder), *options, *more]


def compare(folder, *more, **flags):
    return cli(*command(folder, *more, **flags))


def test_a_runs_folder_that_is_a_file_is_told(tmp_path, small):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write in"):
        Comparison([small(runs_dir=tmp_path / "file")], Here(1)).run()


def test_a_run_that_ends_the_process_of_all_takes_nobody_along(tmp_path, small, monkeypatch):
    # On a GPU runs are threads of one process, which here has to do with the CPU.
    monkeypatch.setattr(here, "GPU", "cpu")
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        """
import os
from dataclasses import dataclass
from fedactive.query import STRATEGIES, register

@register
@dataclass(frozen=True)
class Deadly(STRATEGIES["random"]):
    name = "deadly"

    def select(self, pool, budget, rng):
        os._exit(1)
"""
    )
    load_plugin(plugin)
    longer = {"strategy": "random", "seed": 2, "rounds": 2, "fl_rounds": 40}
    grid = [small(strategy="deadly"), small(**longer)]
    deadly, other = Comparison(grid, Here(2, [plugin], gpus=[0]), Console(file=io.StringIO())).run()
    assert deadly.failed
    assert deadly.last_line().startswith("the process of this run died, see")
    assert not other.failed
    assert "the process of this run died" in other.log.read_text()
    alone = run(small(**longer, runs_dir=tmp_path / "alone"))
    pd.testing.assert_frame_equal(alone.metrics, pd.read_parquet(other.experiment.folder / "metrics.parquet"))


def test_a_damaged_folder_stops_nobody(tmp_path, small):
    damaged = small(strategy="random", seed=2, rounds=1, fl_rounds=1)
    damaged.folder.mkdir(parents=True)
    (damaged.folder / "done.json").write_text("{")
    one, other = Comparison([damaged, replace(damaged, seed=1)], Here(1), Console(file=io.StringIO())).run()
    assert one.failed
    assert "done.json is damaged; delete it and run again" in one.last_line()
    assert not other.failed


def test_a_grid_runs_once_and_is_the_same_as_single_runs(tmp_path, small):
    done = compare(tmp_path / "grid", strategy="logo,random", seed="2", jobs=2)
    assert done.returncode == 0, done.stderr
    assert "2 runs, 0 done before, 2 at a time" in done.stderr
    assert "random, seed 2: accuracy" in done.stderr
    folders = sorted((tmp_path / "grid").glob("digits-*"))
    assert len(folders) == 2
    alone = run(small(strategy="logo", seed=2, rounds=2, fl_rounds=2, runs_dir=tmp_path / "alone"))
    together = pd.read_parquet(tmp_path / "grid" / alone.folder.name / "metrics.parquet")
    pd.testing.assert_frame_equal(alone.metrics, together)

    again = compare(tmp_path / "grid", strategy="logo,random", seed="2", jobs=2)
    assert "2 runs, 2 done before" in again.stderr
    assert again.stdout == done.stdout


def test_settings_have_tables_of_their_own(tmp_path):
    config = tmp_path / "grid.toml"
    config.write_text('strategy = "random"\nalpha = [0.1, inf]\n')
    done = compare(tmp_path / "runs", "--config", str(config), jobs=2)
    assert done.returncode == 0, done.stderr
    assert "alpha 0.1, random, seed 1: accuracy" in done.stderr
    assert "alpha inf, random, seed 1: accuracy" in done.stderr
    assert "alpha 0.1: test accuracy" in done.stdout
    assert "alpha inf: test accuracy" in done.stdout


def test_the_table_is_of_the_rounds_asked_for_with_deviation_and_number_of_seeds(tmp_path):
    runs = tmp_path / "my runs"
    longer = compare(runs, strategy="random", jobs=1)
    assert longer.returncode == 0, longer.stderr
    assert re.search(r"random +│ +1 │ +[\d.]+ │ +[\d.]+ │\n", longer.stdout)
    done = compare(runs, strategy="random", seed="1,2", rounds=1, jobs=1)
    assert "2 runs, 1 done before" in done.stderr
    assert re.search(r"random +│ +2 │ +[\d.]+ ±[\d.]+ │\n", done.stdout)
    assert done.stdout.endswith(f"\nnow: fedactive report '{runs}' -o report.html\n")


def test_a_space_may_follow_a_comma(tmp_path):
    done = compare(tmp_path, strategy="random, logo", model="cnn4, nonsense")
    assert "model: 'nonsense' was given" in done.stderr


def test_options_of_a_strategy_are_separated_by_semicolons(tmp_path):
    done = compare(tmp_path, "--strategy-options", "micro=entropy;micro=nonsense", strategy="logo")
    assert done.returncode == 2
    assert "'nonsense' was given" in done.stderr


def test_a_log_file_tells_where_the_logs_are_and_how_far_it_has_got(tmp_path, small, monkeypatch):
    monkeypatch.setattr(fedactive.sweep.comparison, "SECONDS_BETWEEN_LINES", 0.5)
    console = Console(file=io.StringIO(), width=200)
    Comparison([small(strategy="random", rounds=1, runs_dir=tmp_path)], Here(1), console).run()
    first, *lines = console.file.getvalue().splitlines()
    assert first == f"1 runs, 0 done before, 1 at a time; their logs: {tmp_path}/logs"
    assert lines[0] == "FL rounds 0/3"


def test_training_that_diverged_is_told(tmp_path, small, capsys):
    """Weights that are no numbers still have an accuracy: that of the first class."""
    diverged = small(
        strategy="random", rounds=1, lr=100, momentum=0.999, batch_size=2, local_epochs=5, model="cnn4"
    )
    sound = small(strategy="random", rounds=1)
    for experiment in (diverged, sound):
        print_result(run(experiment, Silent()))
    sentence = "training diverged in AL round 1, FL round 1: the loss is not a number; try a smaller --lr"
    assert capsys.readouterr().err == f"{sentence}\n"
    console = Console(file=io.StringIO(), width=200)
    comparison = Comparison([diverged], Here(1), console)
    for experiment in (diverged, sound):
        comparison.finish(Job(experiment, ""))
    assert console.file.getvalue().count(sentence) == 1


def test_the_time_left_is_told_in_minutes_or_hours():
    task = SimpleNamespace(completed=120.0, total=480.0, time_remaining=2400.0)
    assert progress_line(task) == "FL rounds 120/480, about 40 min left"
    task.time_remaining = 36000.0
    assert progress_line(task, elsewhere=3) == "FL rounds 120/480, about 10 h left, runs elsewhere: 3"


def test_a_run_that_is_done_has_not_failed_whoever_did_it(tmp_path, small):
    experiment = small(strategy="random", rounds=1, runs_dir=tmp_path)
    refused = Job(experiment, "")
    comparison = Comparison([experiment], Here(1))
    comparison.finish(refused)
    assert refused.failed
    run(experiment)
    comparison.finish(refused)
    assert not refused.failed


def held(folder):
    with open(folder / ".lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_runs_end_with_the_grid(tmp_path, how):
    process = subprocess.Popen(
        [*COMMAND, *command(tmp_path, strategy="random", seed="1,2", jobs=2, **{"fl-rounds": 10_000})],
        stderr=subprocess.DEVNULL,
    )
    while len(folders := [path.parent for path in tmp_path.glob("*/environment.json")]) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    assert all(map(held, folders))
    process.send_signal(how)
    process.wait(timeout=60)
    waited = time.monotonic()
    while any(map(held, folders)):
        time.sleep(0.1)
        assert time.monotonic() - waited < 20


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
    flags = {"strategy": "random,entropy", "seed": "1", "jobs": 1}
    process = subprocess.Popen(
        [*COMMAND, *command(tmp_path / "runs", **flags)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list((tmp_path / "runs").glob("*/done.json")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "start the same command again to resume" in errors
    time.sleep(1)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/done.json")}
    assert len(finished) == 1
    done = compare(tmp_path / "runs", **flags)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "runs").glob("*/done.json"))) == 2
    assert all(path.stat().st_mtime_ns == before for path, before in finished.items())
    assert all(json.loads(path.read_text())["al_rounds"] == 2 for path in finished)
