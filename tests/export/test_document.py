"""What docs/EXPORT.md tells a reader to do works as it stands."""

import re
import shlex
import shutil

import pandas as pd
import pytest

from support.commands import cli
from support.documents import DOCS, python_block


@pytest.fixture
def folder(trained, pictures, tmp_path):
    """Where a reader is who has run the first command, and has photographs."""
    shutil.copytree(trained("digits"), tmp_path / "runs" / trained("digits").name)
    shutil.copytree(pictures / "more", tmp_path / "photographs")
    return tmp_path


def test_its_commands_and_its_program_work(folder, monkeypatch):
    monkeypatch.chdir(folder)
    first = re.findall(r"```\n(.*?)```", (DOCS / "EXPORT.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    install, run, *commands = first.splitlines()
    assert (install.split()[0], run.split()[:2]) == ("pip", ["fedactive", "run"])
    for command in commands:
        _, *words = shlex.split(command)
        (name,) = [path.name for path in (folder / "runs").iterdir()]
        done = cli(*(word.replace("digits-*", name) for word in words), cwd=folder)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    names = {}
    exec(python_block("EXPORT.md"), names)
    by_command = pd.read_csv("predictions.csv")
    assert list(names["table"]["image"]) == list(by_command["image"])
    assert list(names["table"].columns) == list(by_command.columns)
    assert (folder / "model.onnx.md").read_text(encoding="utf-8").startswith("# model.onnx\n")
