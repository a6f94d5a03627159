"""Runs on a file of the user's own, from the command to the report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedactive
from fedactive.analysis.report import write_report
from fedactive.analysis.results import read_runs
from fedactive.data.dataset import Dataset
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.models import MODELS
from fedactive.progress import Silent
from fedactive.record.export import export
from fedactive.sites.coordinator.plan import FieldPlan
from support.commands import cli

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture
def mine(tmp_path: Path, digits: Dataset) -> Path:
    """The digits, 12 pixels wide, as a researcher might save them."""
    arrays = {}
    for split in ("train", "test"):
        images = getattr(digits, f"{split}_inputs")[:400, 0].numpy()
        arrays[f"{split}_images"] = np.pad(images, [(0, 0), (0, 0), (2, 2)])
        arrays[f"{split}_labels"] = getattr(digits, f"{split}_labels")[:400].numpy()
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays, classes=np.array(NAMES))
    return path


def run(experiment: Experiment) -> Path:
    return fedactive.run(experiment, Silent()).folder


@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_it(mine: Path, small: Callable[..., Experiment], model: str):
    experiment = small(dataset=str(mine), model=model, rounds=1, fl_rounds=1)
    accuracy = fedactive.run(experiment, Silent()).accuracy
    assert 0 <= accuracy[1] <= 1


def test_it_learns_and_the_report_shows_names_and_images(
    mine: Path, small: Callable[..., Experiment], tmp_path: Path
):
    quick = {"strategy": "random", "alpha": 10.0, "budget": 30.0, "rounds": 2}
    experiment = small(dataset=str(mine), fl_rounds=8, local_epochs=5, **quick)
    result = fedactive.run(experiment, Silent())
    assert result.accuracy[2] > 0.5
    page = tmp_path / "report.html"
    write_report([result.folder], page)
    text = page.read_text()
    assert "Images are not shown" not in text
    assert "data:image/png" in text
    assert "seven" in text
    # The file has gone elsewhere: it is found by its name in the data folder, and only if it is the same.
    (tmp_path / "elsewhere").mkdir()
    mine.rename(tmp_path / "elsewhere" / "mine.npz")
    write_report([result.folder], page, tmp_path / "elsewhere")
    assert page.read_text() == text
    write_report([result.folder], page)
    text = page.read_text()
    assert "Images are not shown: dataset: " in text
    assert "seven" not in text


def test_one_file_in_two_places_is_one_setting_and_exported_runs_are_the_same(
    mine: Path, small: Callable[..., Experiment], tmp_path: Path
):
    copy = tmp_path / "copy" / "mine.npz"
    copy.parent.mkdir()
    copy.write_bytes(mine.read_bytes())
    quick = {"rounds": 1, "fl_rounds": 1, "strategy": "random"}
    first = run(small(dataset=str(mine), **quick))
    second = run(small(dataset=str(copy), seed=2, **quick))
    assert set(read_runs([first, second]).curves["setting"]) == {""}
    done = export([first, second], tmp_path / "results")
    assert (done.runs, done.skipped) == (2, [])
    runs = read_runs([tmp_path / "results", first, second])
    assert len(runs.configuration) == 2
    assert set(runs.configuration["dataset"]) == {"mine"}  # no paths in what may be published
    write_report([tmp_path / "results"], tmp_path / "report.html")


def test_another_content_under_the_same_name_is_another_setting(mine: Path, small: Callable[..., Experiment]):
    quick = {"rounds": 1, "fl_rounds": 1, "strategy": "random", "dataset": str(mine)}
    first = run(small(**quick))
    arrays = dict(np.load(mine))
    arrays["train_images"] = 255 - arrays["train_images"]
    np.savez(mine, **arrays)
    second = run(small(**quick))
    assert first != second
    settings = sorted(set(read_runs([first, second]).curves["setting"]))
    assert len(settings) == 2
    assert all(re.fullmatch("dataset_sha256 [0-9a-f]{12}", setting) for setting in settings)


def test_compare_finds_it_by_a_relative_path(mine: Path, tmp_path: Path):
    options = (
        "--strategy random --clients 3 --rounds 1 --fl-rounds 1 --local-epochs 1 --device cpu --workers 1"
    )
    done = cli("compare", "--dataset", "mine.npz", *options.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    assert len(list((tmp_path / "runs").glob("mine-random-none-s1-*"))) == 1


def test_settings_name_the_content_of_files_alone(mine: Path, small: Callable[..., Experiment]):
    folders = [
        run(small(dataset=name, rounds=1, fl_rounds=1, strategy="random")) for name in (str(mine), "digits")
    ]
    settings = sorted(set(read_runs(folders).curves["setting"]))
    assert settings[0] == "dataset digits"
    assert re.fullmatch("dataset mine, dataset_sha256 [0-9a-f]{12}", settings[1])


def test_a_bad_file_leaves_no_run_folder(tmp_path: Path):
    (tmp_path / "mine.npz").write_bytes(b"nonsense")
    done = cli("run", "--dataset", "mine.npz", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "fedactive: mine.npz: not an .npz archive\n"
    assert not (tmp_path / "runs").exists()


def test_between_sites_there_is_no_one_file(mine: Path):
    with pytest.raises(ConfigurationError, match=r"mine\.npz' was given, allowed is a name, between sites"):
        FieldPlan.from_toml(f'dataset = "{mine}"')
