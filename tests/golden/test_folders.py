"""Run folders that an earlier version left behind are read and finished as if nothing had changed.

`folders/` was written by fedactive 0.1.0 and is not recorded again: `stopped-*` ended in the middle of AL round
2, `first-round` has the AL round 1 that strategies share, `finished` has no checkpoint. Checkpoints are packed.
"""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import pandas as pd
import pytest

import fedactive

from .cases import HERE
from .outcome import Outcome, assert_as_recorded, column, load, outcome, same_arithmetic
from .test_runs import command

EXPECTED = load()
STOPPED = ("stopped-fedavg", "stopped-scaffold")


def unpack(name: str, target: Path) -> Path:
    """A copy of the folders; the only run folder among them, or the folder of all."""
    shutil.copytree(HERE / "folders" / name, target)
    for packed in target.rglob("*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()
    return next(target.glob("digits-*"), target)


def settings_in(folder: Path, **changes: object) -> fedactive.Experiment:
    return fedactive.Experiment.from_toml((folder / "experiment.toml").read_text(), **changes)


def finish(experiment: fedactive.Experiment) -> Outcome:
    result = fedactive.run(experiment, fedactive.Silent())
    return outcome(result.folder, result.metrics, result.selections)


def whole(name: str, folder: Path) -> Outcome:
    """The run that was stopped, without a stop: this is what is recorded."""
    return finish(settings_in(unpack(name, folder / "old"), runs_dir=folder / "whole"))


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_goes_on_as_if_it_never_had(name: str, tmp_path: Path):
    folder = unpack(name, tmp_path / "runs")
    assert set(pd.read_parquet(folder / "metrics.parquet")["al_round"]) == {1}
    experiment = settings_in(folder, runs_dir=tmp_path / "runs")
    assert experiment.name == folder.name
    resumed = finish(experiment)
    assert len(list((tmp_path / "runs").glob("digits-*"))) == 1
    assert len(json.loads((folder / "environment.json").read_text())["starts"]) == 2
    assert_as_recorded(resumed, EXPECTED["stopped"][name], same_arithmetic(EXPECTED))


class Watch(fedactive.Silent):
    """Which AL rounds were computed, as far as this tells."""

    def __init__(self) -> None:
        self.al_rounds: set[int] = set()

    def on_evaluation(self, al_round: int, fl_round: int, accuracy: float) -> None:
        self.al_rounds.add(al_round)


def test_the_shared_first_round_is_taken(tmp_path: Path):
    runs = unpack("first-round", tmp_path / "runs")
    (shared,) = (runs / ".first-rounds").iterdir()
    before = shared.read_bytes()
    watch, old = Watch(), unpack("stopped-fedavg", tmp_path / "old")
    result = fedactive.run(settings_in(old, runs_dir=runs), watch)
    assert watch.al_rounds == {2, 3}
    assert [path.read_bytes() for path in (runs / ".first-rounds").iterdir()] == [before]
    found = outcome(result.folder, result.metrics, result.selections)
    assert_as_recorded(found, EXPECTED["stopped"]["stopped-fedavg"], same_arithmetic(EXPECTED))


def test_a_finished_run_counts_as_finished(tmp_path: Path):
    folder = unpack("finished", tmp_path / "runs")
    (tmp_path / "experiment.toml").write_bytes((folder / "experiment.toml").read_bytes())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = command("run", "--config", "experiment.toml", cwd=tmp_path)
    assert "nothing was left to run" in told
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}
    assert after == before
    assert len(list((tmp_path / "runs").glob("digits-*"))) == 1
    result = fedactive.run(settings_in(folder, runs_dir=tmp_path / "runs"), fedactive.Silent())
    found = outcome(result.folder, result.metrics, result.selections)
    assert_as_recorded(found, EXPECTED["finished"], exact=True)


def test_a_finished_run_is_exported_and_reported(tmp_path: Path):
    assert export(tmp_path) == EXPECTED["exported"]
    # The run and its copy among the results are one.
    assert "report.html: runs 1" in command("report", "runs", "results", cwd=tmp_path)
    assert "digits" in (tmp_path / "report.html").read_text()


def export(folder: Path) -> Outcome:
    unpack("finished", folder / "runs")
    told = command("paper", "export", "runs", "-o", "results", cwd=folder)
    assert "results: runs 1, added 1, replaced 0" in told
    table = pd.read_parquet(folder / "results" / "runs.parquet")
    return {
        "run": table["run"].tolist(),
        "labelled": table["labelled"].tolist(),
        "mu": [float(text.removeprefix("mu=")) for text in table["algorithm_options"]],
        "samples": table["samples"].tolist(),
        "finished": table["finished"].tolist(),
        "accuracy": [[round(share, 4) for share in shares] for shares in table["accuracy"]],
        "class_accuracy": column(table["class_accuracy"]),
        "queried": [[row.tolist() for row in rows] for rows in table["queried"]],
    }


def tables_of(folder: Path) -> Outcome:
    metrics, selections = (pd.read_parquet(folder / f"{name}.parquet") for name in ("metrics", "selections"))
    return outcome(folder, metrics, selections)
