"""Run folders: complete, atomic, and safe against kills, full disks and damage."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import fedactive.laboratory.run
import fedactive.record.run_folder
from fedactive.errors import RunError
from fedactive.files import write_atomically
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from fedactive.record.run_folder import Run
from fuzz import payload
from support.commands import cli

TABLES = ("metrics", "selections", "clients")


class StopAt(Silent):
    """Ends the run after some FL round, as an interruption would."""

    def __init__(self, al_round, fl_round):
        self.point = (al_round, fl_round)

    def on_evaluation(self, al_round, fl_round, accuracy):
        if (al_round, fl_round) == self.point:
            raise KeyboardInterrupt


def assert_same_results(one, two):
    for name in TABLES:
        pd.testing.assert_frame_equal(
            pd.read_parquet(one / f"{name}.parquet"),
            pd.read_parquet(two / f"{name}.parquet"),
            check_exact=True,
        )


def test_a_finished_folder_tells_everything(small):
    result = run(small(strategy="logo"))
    names = {path.name for path in result.folder.iterdir()}
    assert names == {
        ".lock", "experiment.toml", "environment.json", "clients.parquet", "metrics.parquet",
        "selections.parquet", "timings.parquet", "checkpoint.pt", "done.json", "progress.json",
    }  # fmt: skip
    (start,) = json.loads((result.folder / "environment.json").read_text())["starts"]
    assert start["packages"]["torch"]
    assert start["cpu"]
    assert start["engine"] == "sequential"
    phases = set(pd.read_parquet(result.folder / "timings.parquet")["phase"])
    assert {"training", "evaluation", "local-only training", "scoring", "selection"} <= phases
    assert json.loads((result.folder / "done.json").read_text())["final_accuracy"] == result.accuracy.iloc[-1]


def test_a_finished_run_is_not_run_again(small):
    experiment = small()
    first = run(experiment)
    before = {path: path.stat().st_mtime_ns for path in first.folder.iterdir() if path.name != ".lock"}
    again = run(experiment, StopAt(1, 0))  # would stop it, if it ran
    assert again.folder == first.folder
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_stopped_run_that_is_to_go_less_far_ends_with_its_complete_rounds(small, tmp_path, monkeypatch):
    monkeypatch.setattr(fedactive.record.run_folder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    settings = {"strategy": "logo", "fl_rounds": 3}
    short = run(small(**settings, rounds=2, runs_dir=tmp_path / "short"))
    stopped = small(**settings, rounds=4, runs_dir=tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        run(stopped, StopAt(3, 1))
    ended = run(replace(stopped, rounds=2))
    assert ended.selections["al_round"].max() == ended.metrics["al_round"].max() == 2
    pd.testing.assert_series_equal(ended.accuracy, short.accuracy)
    assert json.loads((ended.folder / "done.json").read_text())["final_accuracy"] == ended.accuracy[2]
    whole = run(small(**settings, rounds=4, runs_dir=tmp_path / "whole"))
    assert_same_results(run(stopped).folder, whole.folder)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
@pytest.mark.parametrize("init", ["random", "continue"])
def test_an_interrupted_run_ends_with_the_same_numbers(small, tmp_path, monkeypatch, algorithm, init):
    monkeypatch.setattr(fedactive.record.run_folder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    settings = {"strategy": "logo", "algorithm": algorithm, "init": init, "participation": 0.7}
    whole = run(small(**settings, runs_dir=tmp_path / "whole"))
    broken = small(**settings, runs_dir=tmp_path / "broken")
    for point in ((1, 0), (2, 1), (2, 2), (3, 0)):
        with pytest.raises(KeyboardInterrupt):
            run(broken, StopAt(*point))
    resumed = run(broken)
    assert_same_results(whole.folder, resumed.folder)
    assert len(json.loads((resumed.folder / "environment.json").read_text())["starts"]) == 5


EAGER = """
import fedactive.record.run_folder
fedactive.record.run_folder.SECONDS_BETWEEN_CHECKPOINTS = 0.0
"""
EAGER_COMMAND = [sys.executable, "-c", f"{EAGER}from fedactive.__main__ import main; main()"]
KILLED = """
import os, signal, threading

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def replace_and_count(*files):
    global left
    replace(*files)
    left -= 1
    if left == 0:
        threading.Timer(delay, kill).start() if delay else kill()

left, delay = KILL_AT
replace, os.replace = os.replace, replace_and_count
"""


def command(folder, workers):
    """A run of a few seconds."""
    flags = {
        "dataset": "digits", "strategy": "logo", "clients": 3, "rounds": 3, "fl-rounds": 6, "local-epochs": 2,
        "local-only-epochs": 20, "model": "mlp", "augment": "none", "workers": workers, "runs-dir": folder, "device": "cpu",
    }  # fmt: skip
    return ["run", *(part for name, value in flags.items() for part in (f"--{name}", str(value)))]


def test_kill_at_any_moment(tmp_path):
    """A real process, killed with SIGKILL again and again at different moments, ends as if it never was."""
    whole = cli(*command(tmp_path / "whole", 1), before=EAGER)
    assert whole.returncode == 0, whole.stderr
    # A run that kills itself once so many files were put in place, and so many seconds later. Three files are
    # put in place at a start, two with each checkpoint: even numbers fall between these two.
    for kill_at in ((6, 0.0), (9, 0.01), (12, 0.03), (2, 0.0)):
        program = EAGER + KILLED.replace("KILL_AT", str(kill_at))
        killed = cli(*command(tmp_path / "killed", 1), before=program)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = cli(*command(tmp_path / "killed", 1), before=EAGER)
    assert ended.returncode == 0, ended.stderr
    (one,), (two,) = ((tmp_path / name).glob("digits-*") for name in ("whole", "killed"))
    assert_same_results(one, two)


def test_workers_end_with_a_killed_main_process(tmp_path):
    process = subprocess.Popen(
        [*EAGER_COMMAND, *command(tmp_path, 2)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    workers: list[int] = []
    while len(workers) < 2:
        assert process.poll() is None
        time.sleep(0.05)
        workers = descendants(process.pid)
    time.sleep(0.5)  # they are at work
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(pid) for pid in workers)


def descendants(process):
    """The children of a process, and theirs."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid for child in map(int, children) for pid in (child, *descendants(child))]


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_ctrl_c_tells_how_to_resume(tmp_path):
    process = subprocess.Popen(
        [*EAGER_COMMAND, *command(tmp_path, 1)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not list(tmp_path.glob("*/checkpoint.pt")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "start the same command again to resume" in errors
    assert "Traceback" not in errors


def test_two_processes_cannot_share_a_run(small):
    holder = Run(small())
    with pytest.raises(RunError, match="in use by another process"):
        run(small())
    holder.close()


@pytest.fixture
def interrupted(small, monkeypatch):
    monkeypatch.setattr(fedactive.record.run_folder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    experiment = small()
    with pytest.raises(KeyboardInterrupt):
        run(experiment, StopAt(2, 1))
    return experiment, experiment.folder


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b[:-9] + b"x" + b[-8:], lambda b: b"", lambda b: payload.sealed()],
)
def test_a_damaged_checkpoint_is_named_and_the_previous_one_takes_over(interrupted, tmp_path, damage):
    experiment, folder = interrupted
    checkpoint = folder / "checkpoint.pt"
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(RunError, match=r"checkpoint.pt is damaged; move it away .* checkpoint.previous.pt"):
        run(experiment)
    assert not Path(payload.EXECUTED).exists()
    checkpoint.unlink()
    resumed = run(experiment)
    assert_same_results(resumed.folder, run(replace(experiment, runs_dir=tmp_path / "whole")).folder)


def test_a_full_disk_is_reported_and_nothing_is_lost(interrupted, tmp_path):
    """The system refuses files larger than 30 kB: a real error in the middle of writing a checkpoint."""
    experiment, folder = interrupted
    before = (folder / "checkpoint.pt").read_bytes()
    script = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n" + EAGER
    )
    config = tmp_path / "experiment.toml"
    config.write_text(experiment.to_toml())
    process = cli("run", "--config", config, before=script)
    assert process.returncode == 1
    assert "cannot write" in process.stderr
    assert "start the same command again to resume" in process.stderr
    assert "Traceback" not in process.stderr
    assert (folder / "checkpoint.pt").read_bytes() == before
    assert not list(folder.glob(".*.partial"))


def test_an_unwritable_folder_is_refused_before_any_work(small, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RunError, match=r"cannot write in .*choose another --runs-dir"):
        run(small(runs_dir=tmp_path / "file"))


def test_atomic_writes_keep_the_old_content_on_failure(tmp_path, monkeypatch):
    path = tmp_path / "table"
    write_atomically(path, b"old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match="No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


class Rounds(Silent):
    """Which AL rounds were computed."""

    def __init__(self):
        self.al_rounds = set()

    def on_evaluation(self, al_round, fl_round, accuracy):
        self.al_rounds.add(al_round)


def test_strategies_of_one_seed_compute_round_one_once(small, tmp_path):
    alone = run(small(strategy="logo", runs_dir=tmp_path / "alone"))
    first, second, other_seed = Rounds(), Rounds(), Rounds()
    run(small(strategy="random"), first)
    shared = run(small(strategy="logo"), second)
    run(small(strategy="logo", seed=2), other_seed)
    assert (first.al_rounds, second.al_rounds, other_seed.al_rounds) == ({1, 2, 3}, {2, 3}, {1, 2, 3})
    assert_same_results(alone.folder, shared.folder)


@pytest.mark.parametrize("damage", [lambda b: b[:100], lambda b: b[:-1], lambda b: b""])
def test_a_damaged_shared_round_is_computed_and_shared_again(small, damage):
    run(small(strategy="random", rounds=1))
    (path,) = (small().runs_dir / ".first-rounds").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    computed, taken = Rounds(), Rounds()
    run(small(strategy="logo", rounds=1), computed)
    run(small(strategy="entropy", rounds=1), taken)
    assert (computed.al_rounds, taken.al_rounds) == ({1}, set())


def test_round_one_of_other_data_is_not_taken(small, tmp_path, monkeypatch):
    """The dataset of the same name lies in another folder, or its file was replaced."""
    run(small(strategy="random", rounds=1))
    monkeypatch.setattr(
        fedactive.laboratory.run, "load_inputs", with_other_labels(fedactive.laboratory.run.load_inputs)
    )
    computed, taken = Rounds(), Rounds()
    beside = run(small(strategy="entropy", rounds=2), computed)
    run(small(strategy="logo", rounds=2), taken)
    assert (computed.al_rounds, taken.al_rounds) == ({1, 2}, {2})
    alone = run(small(strategy="entropy", rounds=2, runs_dir=tmp_path / "alone"))
    assert_same_results(beside.folder, alone.folder)


def test_a_first_round_that_cannot_be_shared_is_no_obstacle(small):
    small().runs_dir.mkdir()
    (small().runs_dir / ".first-rounds").write_text("in the way")
    assert len(run(small(strategy="random")).accuracy) == 3


def test_a_finished_run_is_prolonged_by_asking_for_more_rounds(small, tmp_path):
    settings = {"strategy": "logo", "algorithm": "scaffold", "init": "continue"}
    whole = run(small(**settings, rounds=4, runs_dir=tmp_path / "whole"))
    short = run(small(**settings, rounds=2))
    longer = run(small(**settings, rounds=4))
    assert short.folder == longer.folder
    assert_same_results(whole.folder, longer.folder)
    again = run(small(**settings, rounds=3), StopAt(1, 0))  # already further than that
    assert len(again.accuracy) == 4


def test_other_data_of_the_same_name_is_refused(small, monkeypatch):
    result = run(small())
    before = {path: path.read_bytes() for path in result.folder.iterdir()}
    monkeypatch.setattr(
        fedactive.laboratory.run, "load_inputs", with_other_labels(fedactive.laboratory.run.load_inputs)
    )
    for rounds in (3, 4):  # a finished run, and one that is to go on
        with pytest.raises(RunError, match=r"digits is not the same as when .* was begun"):
            run(small(rounds=rounds))
    assert {path: path.read_bytes() for path in result.folder.iterdir()} == before


def with_other_labels(load):
    def changed(*arguments):
        dataset = load(*arguments)
        return replace(dataset, train_labels=dataset.train_labels.flip(0))

    return changed


@pytest.mark.parametrize("name", ["done.json", "environment.json"])
def test_a_damaged_file_is_named(small, name):
    path = run(small()).folder / name
    path.write_text("{")
    with pytest.raises(RunError, match=rf"{name} is damaged; delete it"):
        run(small())
    path.unlink()
    assert run(small()).accuracy.size


def test_a_table_that_is_missing_is_written_anew(small):
    result = run(small(strategy="entropy"))
    before = result.metrics
    (result.folder / "metrics.parquet").unlink()
    pd.testing.assert_frame_equal(run(small(strategy="entropy")).metrics, before)


def test_a_finished_run_needs_no_checkpoint(small):
    result = run(small())
    (result.folder / "checkpoint.pt").write_bytes(b"")
    assert run(small()).accuracy.equals(result.accuracy)
    with pytest.raises(RunError, match=r"checkpoint.pt is damaged"):
        run(small(rounds=4))
