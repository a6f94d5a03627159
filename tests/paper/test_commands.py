"""`fedactive paper` as a user calls it."""

import re
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedactive.errors import UserError
from fedactive.paper.commands import app


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
        (["emd", "--alphas", "0.1,inf", "--rhos", "1,20"], "fedactive data get cifar10"),  # so far so good
    ],
)
def test_alphas_and_rhos_are_numbers_of_the_table(tmp_path, arguments, message):
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
