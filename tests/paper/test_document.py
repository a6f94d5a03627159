"""Tables in a document say what the results say."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fedactive.analysis.results_file import export, stored_runs
from fedactive.errors import UserError
from fedactive.paper.commands import app
from fedactive.paper.document import filled
from fedactive.paper.reproduce import experiments

EMPTY = """# Results

Before.
<!-- table: accuracy datasets=cifar10 until=20 -->
<!-- end -->
After.
"""


@pytest.fixture
def results(store, runs, tmp_path):
    for e in experiments("accuracy", seeds=[1, 2], datasets=["cifar10"], strategies=["logo"], runs_dir=runs):
        store(replace(e, rounds=4), [0.5, 0.6, 0.62, 0.64 + e.seed / 100])
    export([runs], tmp_path / "results")
    return tmp_path / "results"


def test_a_table_is_written_and_then_true(results, tmp_path):
    path = tmp_path / "REPRODUCTION.md"
    path.write_text(EMPTY)
    wrong = CliRunner().invoke(app, ["document", str(path), "--from", str(results), "--check"])
    assert isinstance(wrong.exception, UserError)
    assert "does not say what" in str(wrong.exception)
    assert path.read_text() == EMPTY
    assert CliRunner().invoke(app, ["document", str(path), "--from", str(results)]).exit_code == 0
    text = path.read_text()
    assert text.startswith("# Results\n\nBefore.\n<!-- table")
    assert text.endswith("<!-- end -->\nAfter.\n")
    (row,) = [line for line in text.splitlines() if "logo" in line.lower() and "| 66.50 |" in line]
    assert "| 65.50 |" in row  # ours at 20%: the mean of 65 and 66
    assert CliRunner().invoke(app, ["document", str(path), "--from", str(results), "--check"]).exit_code == 0
    path.write_text(text.replace("| 65.50 |", "| 66.50 |"))
    assert CliRunner().invoke(app, ["document", str(path), "--from", str(results), "--check"]).exit_code == 1


def test_mistakes_are_one_sentence(results):
    runs = list(stored_runs(results))
    with pytest.raises(UserError, match="no '<!-- table"):
        filled("nothing here", runs)
    with pytest.raises(UserError, match="unknown option seeds; allowed"):
        filled("<!-- table: accuracy seeds=2 -->\n<!-- end -->", runs)
