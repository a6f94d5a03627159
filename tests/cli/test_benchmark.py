"""`fedactive benchmark` as a user calls it."""

from __future__ import annotations

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedactive.benchmark.suite import find_suite
from fedactive.cli.benchmark import app
from fedactive.errors import RunError, UserError
from support.commands import cli
from support.run_folders import runs, store

__all__ = ["runs", "store"]

OWN = """
question = "Does my method beat chance?"
methods = ["random"]
seeds = [1, 2]

[settings]
dataset = "digits"
augment = "none"
model = "mlp"
clients = 3
budget = "5/client"
rounds = 2
fl_rounds = 2
local_epochs = 1
local_only_epochs = 2
"""

PLUGIN = """
import torch
from fedactive.query import OneModelStrategy, Selection, register

@register
class Mine(OneModelStrategy):
    name = "mine"
    summary = "the first samples of the pool"
    paper = "nobody, 2026"
    selectors = ("global",)

    def select(self, pool, budget, rng):
        chosen = torch.arange(min(budget, len(pool)))
        return Selection(chosen, torch.zeros(len(chosen)))
"""


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_suites_are_listed_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = invoke("list").stdout
    for name in ("yardstick", "paper", "medical", "few-labels", "smoke"):
        assert f"│ {name} " in shown


@pytest.fixture
def results(store, runs):
    for e in find_suite("smoke").of(["random", "logo"], seeds=2).experiments(runs_dir=runs):
        lead = (e.strategy == "logo") * (0.05 + e.seed / 1000)
        store(e, [0.5, *(0.5 + 0.1 * r + lead for r in range(1, 4))])
    return runs


def test_a_verdict_with_picture_and_tables(results, tmp_path):
    shown = invoke(
        *("show", "smoke", "--methods", "random,logo", "--seeds", 2, "--from", results),
        *("-o", tmp_path / "cd.png", "--latex", tmp_path / "t.tex", "--csv", tmp_path / "t.csv"),
        *("--pdf", tmp_path / "t.pdf"),
    )
    assert shown.exception is None, shown.exception
    pages = (tmp_path / "t.pdf").read_bytes().count(b"/Type /Page ")
    assert pages == 3  # the ranks, and the curves of two settings
    assert "1 of 1 pairs are decided" in shown.stdout
    assert (tmp_path / "cd.png").read_bytes().startswith(b"\x89PNG")
    assert r"\begin{tabular}" in (tmp_path / "t.tex").read_text()
    assert len(pd.read_csv(tmp_path / "t.csv")) == 2 * 2 * 2 * 4


def test_what_cannot_be_shown_is_one_sentence(results, tmp_path):
    nothing = invoke("show", "medical", "--from", results)
    assert isinstance(nothing.exception, RunError)
    assert "`fedactive benchmark run medical` makes them" in str(nothing.exception)
    alone = invoke("show", "smoke", "--methods", "random", "--from", results, "-o", tmp_path / "cd.svg")
    assert "there are no ranks to draw" in str(alone.exception)


def test_a_document_is_written_and_then_true(results, tmp_path):
    path = tmp_path / "BENCHMARK.md"
    path.write_text("# Ours\n\n<!-- suite: smoke -->\n<!-- end -->\n")
    wrong = invoke("document", path, "--from", results, "--check")
    assert isinstance(wrong.exception, UserError)
    assert f"write it anew with: fedactive benchmark document {path} --from {results}" in str(wrong.exception)
    assert invoke("document", path, "--from", results).exit_code == 0
    assert "| logo | 1.00 |" in path.read_text()
    assert invoke("document", path, "--from", results, "--check").exit_code == 0


def test_a_method_of_ones_own_is_run_and_judged(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "mine.py").write_text(PLUGIN)
    words = ("own.toml", "--plugin", "mine.py", "--method", "mine")
    ran = cli("benchmark", "run", *words, "--device", "cpu", "--jobs", 2, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("4 runs, 0 done before; the rest trains on about ")
    assert "now: fedactive benchmark show own.toml --plugin mine.py --method mine\n" in ran.stdout
    shown = cli("benchmark", "show", *words, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "mine, rank " in shown.stdout
    again = cli("benchmark", "run", *words, "--runs-dir", "others", "--from", "runs", cwd=tmp_path)
    assert again.stdout.startswith("4 runs, all done before\n")
