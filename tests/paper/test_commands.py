"""`fedactive paper` as a user calls it."""

import re
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedactive.errors import UserError
from fedactive.paper import commands
from fedactive.paper.commands import app
from fedactive.paper.reproduce import experiments


def paper(*arguments):
    command = [sys.executable, "-m", "fedactive", "paper", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_38_settings_are_listed():
    assert len(re.findall(r"│ \d+ +│ (?:global|local)", paper("settings").stdout)) == 38


def test_a_table_without_runs_shows_the_papers_numbers(tmp_path):
    done = paper(
        "show",
        "accuracy",
        "--from",
        tmp_path,
        "--datasets",
        "cifar10",
        "--until",
        20,
        "-o",
        tmp_path / "t.csv",
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"cifar10 +logo +both +20 +66\.50 +0", done.stdout)
    table = pd.read_csv(tmp_path / "t.csv")
    assert len(table) == 12
    assert set(table["note"]) == {"no runs"}


def test_runs_made_with_other_settings_are_hinted_at(store, runs):
    (experiment, *_) = experiments(
        "accuracy", datasets=["cifar10"], until=20, precision="bf16", runs_dir=runs
    )
    store(experiment, [0.1, 0.2, 0.3, 0.4])
    hidden = paper("show", "accuracy", "--from", runs)
    assert "there are runs made with --precision bf16: show needs the same" in hidden.stderr
    shown = paper("show", "accuracy", "--from", runs, "--precision", "bf16")
    assert "no runs" not in shown.stderr


def test_a_matrix_without_runs_is_a_sentence(tmp_path):
    done = paper("show", "penalty", "--from", tmp_path)
    assert done.stdout == ""
    assert "`fedactive paper run penalty` makes them" in done.stderr


def test_ctrl_c_says_how_to_resume(tmp_path, monkeypatch):
    def stopped(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "require_data", lambda _: None)
    monkeypatch.setattr(commands.Comparison, "run", stopped)
    done = CliRunner().invoke(app, ["run", "accuracy", "--no-trial", "--runs-dir", str(tmp_path)])
    assert done.exit_code == 130
    assert "start the same command again to resume" in done.output


@pytest.mark.parametrize(
    "command", [["show", "acuracy"], ["run", "acuracy"], ["figure", "pie", "-o", "x.svg"]]
)
def test_an_unknown_name_is_one_sentence(command):
    done = paper(*command)
    assert done.returncode == 2
    assert "was given, allowed is one of" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["emd", "--alphas", "0.1;1"], "alphas: '0.1;1' was given, allowed is numbers separated by commas"),
        (["accuracy", "--rhos", "20"], "rhos: 20.0 was given, allowed is 1 here"),
        (
            ["accuracy", "--strategies", "finetune"],
            "strategies: 'finetune' was given, allowed is one of alfa",
        ),
        (["emd", "--alphas", "0.1,inf", "--rhos", "1,20"], "fedactive data get cifar10"),  # so far so good
    ],
)
def test_what_is_asked_for_must_be_in_the_table(tmp_path, arguments, message):
    folders = ["--runs-dir", str(tmp_path / "runs"), "--data-dir", str(tmp_path)]
    done = CliRunner().invoke(app, ["run", *arguments, *folders])
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)


def test_missing_data_is_told_before_any_run_starts(tmp_path):
    done = paper(
        "run", "accuracy", "--datasets", "svhn", "--runs-dir", tmp_path / "runs", "--data-dir", tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.count("fedactive data get svhn") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["penalty", "observation"])
def test_figures_are_of_all_runs(tmp_path, name):
    done = CliRunner().invoke(app, ["show", name, "--from", str(tmp_path), "--datasets", "svhn"])
    assert "with --until or --datasets" in str(done.exception)


def test_an_output_that_cannot_be_written_is_told(tmp_path):
    arguments = ["show", "accuracy", "--from", str(tmp_path), "-o", str(tmp_path / "nowhere" / "x.csv")]
    assert "cannot write" in str(CliRunner().invoke(app, arguments).exception)
