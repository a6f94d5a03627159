"""Runs give the numbers that they always gave, by the public interface alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedactive

from .cases import GRID, NAMED, OWN_FILE, PARALLEL, RUNS, SMALL, Settings
from .outcome import Outcome, assert_as_recorded, fingerprint, load, outcome, same_arithmetic

EXPECTED = load()


def run(settings: Settings, runs_dir: Path) -> Outcome:
    experiment = fedactive.Experiment.from_values({**settings, "runs_dir": runs_dir})
    result = fedactive.run(experiment, fedactive.Silent())
    assert result.folder == runs_dir / experiment.name
    return outcome(result.folder, result.metrics, result.selections)


def command(*arguments: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    places = [str(Path(fedactive.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "fedactive", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places)), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def compare(folder: Path) -> dict[str, Outcome]:
    """The runs of the grid, by the names of their folders."""
    flags = [text for name, value in GRID.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    jobs = str(os.cpu_count() or 1)  # as many as cores: each run has one thread, as here
    command("compare", *flags, "--jobs", jobs, "--runs-dir", "runs", cwd=folder)
    tables = ("metrics", "selections")
    return {
        path.name: outcome(path, *(pd.read_parquet(path / f"{table}.parquet") for table in tables))
        for path in sorted((folder / "runs").glob("digits-*"))
    }


def names(folder: Path) -> list[str]:
    """The names of the runs; relative paths are those of `folder`."""
    (folder / "mine.npz").write_bytes(OWN_FILE.read_bytes())
    (folder / "Other pictures.npz").write_bytes(b"its content is not looked at before the run")
    before = Path.cwd()
    os.chdir(folder)
    try:
        return [fedactive.Experiment.from_values(settings).name for settings in NAMED]
    finally:
        os.chdir(before)


def test_the_arithmetic_is_that_of_the_recording():
    """If it is not, the others compare what does not depend on it exactly, and accuracies roughly."""
    different = [name for name, known in EXPECTED["arithmetic"].items() if known != fingerprint(name)]
    if different:
        pytest.skip(
            f"numbers are compared roughly: this machine rounds differently in {', '.join(different)}"
        )


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_same_numbers(name: str, tmp_path: Path):
    settings = RUNS[name]
    exact = same_arithmetic(EXPECTED, settings.get("precision", "fp32"))
    assert_as_recorded(run(settings, tmp_path), EXPECTED["runs"][name], exact)


@pytest.mark.parametrize("name", PARALLEL)
def test_worker_processes_give_the_same_numbers(name: str, tmp_path: Path):
    found = run(RUNS[name] | {"workers": 2}, tmp_path)
    assert_as_recorded(found, EXPECTED["runs"][name], same_arithmetic(EXPECTED))


def test_compare_makes_the_same_runs(tmp_path: Path):
    found, expected = compare(tmp_path), EXPECTED["compare"]
    assert found.keys() == expected.keys()
    for name, one in found.items():
        assert_as_recorded(one, expected[name], same_arithmetic(EXPECTED))


def test_runs_keep_their_names(tmp_path: Path):
    expected: list[Any] = EXPECTED["names"]
    assert names(tmp_path) == expected
    # Where and how far it runs is not in the name, what decides the numbers is.
    here = fedactive.Experiment(**SMALL, runs_dir=tmp_path)
    assert here.name == fedactive.Experiment(**SMALL | {"rounds": 5, "workers": 2}).name
    assert here.name.endswith(here.hash)
