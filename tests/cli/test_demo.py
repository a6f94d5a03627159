"""The demo's own experiments, made short; `make demo` runs them at full length."""

import dataclasses
import re

import pandas as pd
import typer

import fedactive.cli.demo
from fedactive.cli.app import app


def make_context(words):
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("", words)


def test_the_demo_ends_with_a_table_a_picture_and_run_folders(tmp_path, monkeypatch, capsys):
    whole = fedactive.cli.demo.demo_experiments

    def shortened(folder):
        return [dataclasses.replace(e, rounds=2, fl_rounds=1, workers=1) for e in whole(folder)]

    monkeypatch.setattr(fedactive.cli.demo, "demo_experiments", shortened)
    fedactive.cli.demo.demo(tmp_path)
    text = capsys.readouterr().out
    assert "Each row is a way to choose what to label." in text
    for name in ("logo", "entropy (global)", "entropy (local)", "random"):
        assert re.search(rf"{re.escape(name)}\s+│\s+2 │\s+\d+\.\d ±\d", text)
    (folder,) = tmp_path.iterdir()
    assert (folder / "learning-curves.png").read_bytes().startswith(b"\x89PNG")
    assert "entropy (local)" in (folder / "report.html").read_text()
    tried = re.findall(r"^  \w.*?  +fedactive (.*?)(?: \(.*)?$", text, re.MULTILINE)
    assert len(tried) == 4
    for words in tried:
        make_context(words.split())  # a mistake is a UsageError
    runs = list(folder.glob("digits-*"))
    assert len(runs) == 8
    assert all((path / "done.json").exists() for path in runs)
    assert all(len(pd.read_parquet(path / "selections.parquet")) == 2 * 5 * 14 for path in runs)
