"""Processes that we start import nothing from the current directory, where anybody's files may lie.

Those of the field are in cli/test_field.py. And copies of a process end as Python does.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from fedactive import __version__
from fedactive.children import NOT_WRITTEN
from fedactive.engines.parallel import ParallelEngine
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec
from fedactive.record.run_folder import is_finished
from fedactive.sites.rehearsal import Rehearsal
from fedactive.sweep.comparison import Comparison
from fedactive.sweep.crew import Crew
from fedactive.sweep.here import Here
from support.traps import set_traps


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    imported = set_traps(tmp_path / "traps")
    monkeypatch.chdir(imported.parent)
    yield tmp_path
    assert not imported.exists(), imported.read_text()


def test_runs_side_by_side(folder, small):
    plugin = folder / "mine.py"
    plugin.write_text("print('a plugin is asked for by name')")
    experiment = small(strategy="random", rounds=1, fl_rounds=1)
    Comparison([experiment], Here(1, [plugin])).run()
    assert is_finished(experiment)


def test_runs_in_one_process(folder):
    plugin = folder / "mine.py"
    plugin.write_text("print('a plugin is asked for by name')")
    Crew(["fedactive.sweep.crew", 1, plugin], folder / "crew.log").dismiss()
    assert (folder / "crew.log").read_text() == "a plugin is asked for by name\n"


def test_commands_of_a_rehearsal(folder):
    rehearsal = Rehearsal.__new__(Rehearsal)
    rehearsal.folder, rehearsal.running = folder, {}
    rehearsal.start("north", "--version")
    assert rehearsal.running["north"].wait(120) == 0
    assert (folder / "north.log").read_text() == f"fedactive {__version__}\n"


def test_workers_that_train(digits):
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    start = spec.initial_weights(torch.Generator().manual_seed(0))
    job = LocalJob(start, torch.arange(4), digits.train_labels[:4], epochs=1, rates=(0.01,), shuffle=1)
    with ParallelEngine(spec, digits, Recipe(), workers=1) as engine:
        assert engine.train([job])[0].steps == 1


ENDS = """
import atexit, os, sys, threading, time
from fedactive.children import run_to_the_end

def main():
    print("printed", end=" ")
    atexit.register(print, "registered", end=" ")
    threading.Thread(target=lambda: (time.sleep(0.2), print("from a thread", end=" "))).start()
    {end}

if os.fork() == 0:
    run_to_the_end(main)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit(2**40 + 3)", 3, ""),
        ("sys.exit('no')", 1, "no"),
        ("sys.exit(OSError('no', 'file'))", 1, "[Errno no] file"),
        ("sys.exit(2.5)", 1, "2.5"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("os.close(1)", NOT_WRITTEN, ""),
    ],
)
def test_a_copy_of_a_process_ends_as_python_does(end, code, said):
    """All is written, threads are waited for, and what was registered for the end is called."""
    command = [sys.executable, "-c", ENDS.format(end=end)]
    late = os.environ | {"PYTHONUNBUFFERED": ""}  # what is printed is written at the end
    done = subprocess.run(command, capture_output=True, text=True, env=late, check=False)
    assert done.returncode == code
    assert done.stdout == ("" if code == NOT_WRITTEN else "printed from a thread registered ")
    assert (done.stderr.splitlines() or [""])[-1] == said


INTERRUPTED = """
import atexit, os, signal, sys, threading, time
from fedactive.children import run_to_the_end

def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)

def main():
    print("printed", end=" ")
    atexit.register(print, "registered", end=" ")
    {step}

if os.fork() == 0:
    try:
        run_to_the_end(main)
    finally:
        os.write(1, b"and went on")
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("step", ["threading.Thread(target=interrupt).start()", "atexit.register(interrupt)"])
def test_a_copy_that_is_interrupted_at_its_end_goes_on_with_it(step):
    """Or it would go on where the process went on of which it is a copy."""
    command = [sys.executable, "-c", INTERRUPTED.format(step=step)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert (done.returncode, done.stdout) == (0, "printed registered ")
