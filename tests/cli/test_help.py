"""Every command explains itself and ends with an example that works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from fedactive.cli.app import app
from fedactive.data.catalog import DATASETS
from fedactive.paper import TABLES
from fedactive.registry import ALGORITHMS, MODELS, OBJECTIVES, STRATEGIES
from fedactive.sweep.placement import RUNS_PER_GPU

ROOT = Path(__file__).parents[2]
TOP = typer.main.get_command(app)


def everything(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from everything(part, f"{path} {name}")


COMMANDS = dict(everything(TOP, "fedactive"))


def example_of(path: str) -> str:
    found = re.fullmatch(r"Example: `(fedactive .+)`", COMMANDS[path].epilog or "")
    assert found, f"{path} has no example"
    return found[1]


def shown(*arguments: str, columns: int = 80) -> str:
    terminal = CliRunner(env={"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"})
    result = terminal.invoke(app, arguments, prog_name="fedactive")
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_a_sentence_and_ends_with_an_example_on_one_line(path: str):
    text = shown(*path.split()[1:], "-h")
    assert f"Usage: {path} " in text
    assert text.strip().endswith(f"Example: {example_of(path)}")
    assert re.match(r"[A-Z][\w']+[ ,:].*[.)]$", (COMMANDS[path].help or "").split("\n\n")[0], re.DOTALL)


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_are_understood(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)  # where docs/ and results/ are
    _, *words = shlex.split(example_of(path))
    assert example_of(path).startswith(path)
    command = TOP
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    command.make_context(path, words)  # a mistake is a UsageError


@pytest.mark.parametrize(
    "path", ["strategies", "algorithms", "objectives", "models", "backbones", "datasets", "paper settings"]
)
def test_examples_that_list_something_work(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    _, *words = shlex.split(example_of(f"fedactive {path}"))
    assert len(shown(*words).splitlines()) > 5


def test_the_example_of_run_works(tmp_path: Path):
    _, *words = shlex.split(example_of("fedactive run"))
    quick = ["--fl-rounds", "1", "--local-epochs", "1", "--local-only-epochs", "1", "--workers", "1"]
    assert "run folder: " in shown(*words, *quick, "--runs-dir", str(tmp_path))


def test_old_flags_are_understood_but_not_shown():
    for command in ("run", "compare"):
        assert "mu" in {parameter.name for parameter in COMMANDS[f"fedactive {command}"].params}
        assert "--mu" not in shown(command, "-h")


def test_what_help_texts_repeat_is_true():
    """This one names a number without importing what knows it."""
    assert f"{RUNS_PER_GPU} on each GPU" in shown("compare", "-h", columns=300)


def completions(words: str) -> list[str]:
    """What Bash is told when Tab is pressed after these words."""
    asked = {
        "_FEDACTIVE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "fedactive"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fedactive comp", ["compare"]),
        ("fedactive paper do", ["document"]),
        ("fedactive run --strategy l", ["least_confidence", "logo"]),
        ("fedactive run --strategy ", STRATEGIES.ours),
        ("fedactive run --algorithm ", ALGORITHMS.ours),
        ("fedactive run --objective ", OBJECTIVES.ours),
        ("fedactive run --model ", MODELS.ours),
        ("fedactive run --dataset ", list(DATASETS)),
        ("fedactive run --backbone ", ["efficientnet_lite0"]),
        ("fedactive run --init c", ["continue"]),
        ("fedactive compare --strategy logo,ran", ["logo,random"]),
        ("fedactive data get dig", ["digits"]),
        ("fedactive paper show ", list(TABLES)),
    ],
)
def test_names_are_completed(words: str, expected: list[str]):
    assert completions(words) == expected


def test_completion_can_be_installed(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "fedactive", "--install-completion", "bash"],
        env=os.environ | {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "bash completion installed" in done.stdout
    assert "_FEDACTIVE_COMPLETE=complete_bash" in next(tmp_path.rglob("fedactive.sh")).read_text()
