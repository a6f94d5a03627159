"""Tables and pictures of runs whose budgets count labels."""

import pytest
from typer.testing import CliRunner

from fedactive.cli.paper import app
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.paper.few_labels import few_labels_table
from fedactive.record.export import export
from support.run_folders import runs_of

DOCUMENT = """# Few labels

<!-- few-labels: dataset=digits alpha=0.1 -->
<!-- end -->
<!-- picture: pictures/digits.svg title=Digits,_alpha_0.1 dataset=digits alpha=0.1 -->
<!-- end -->
"""


@pytest.fixture
def results(store, runs, tmp_path):
    def add(strategy, curve, **changes):
        for seed in (1, 2):
            e = Experiment(
                dataset="digits",
                strategy=strategy,
                budget="2+3+30/client",
                clients=5,
                seed=seed,
                runs_dir=runs,
                **changes,
            )
            store(e, [value + (seed - 1) / 100 for value in curve])

    add("random", [0.50, 0.60, 0.70])
    add("typiclust", [0.60, 0.66, 0.70], first="typiclust")
    add("auto", [0.60, 0.66, 0.80], first="typiclust")
    add("margin", [0.60, 0.67, 0.79], first="typiclust")
    add("margin", [0.50, 0.61, 0.79])
    add("random", [0.10, 0.20, 0.30], alpha=1.0)
    store(Experiment(dataset="digits", clients=5, runs_dir=runs), [0.9])  # in percent: of no table here
    export([runs], tmp_path / "few-labels.parquet")
    return tmp_path / "few-labels.parquet"


def test_a_row_for_each_strategy_and_who_chose_first(results):
    text = few_labels_table(["dataset=digits", "alpha=0.1"], runs_of(results))
    assert "mean of 2 seeds ± standard error" in text
    assert "| strategy | round 1 by | 4 | 8 | 12 |\n" in text
    assert "| `random` | `random` | 50.5 ± 0.5 | 60.5 ± 0.5 | 70.5 ± 0.5 |\n" in text
    assert "| `margin` | `typiclust` | **60.5** ± 0.5 | **67.5** ± 0.5 | 79.5 ± 0.5 |\n" in text
    assert "| `margin` | `random` | 50.5 ± 0.5 | 61.5 ± 0.5 | 79.5 ± 0.5 |\n" in text
    assert text.endswith("best mean at 2 of 3 budgets; it is behind by 1.0 points at 8.\n")
    only = few_labels_table(["alpha=1"], runs_of(results))
    assert "| `random` | `random` | **10.5** ± 0.5 |" in only


def test_a_table_of_another_metric(results):
    text = few_labels_table(["alpha=1", "metric=macro_f1"], runs_of(results))
    seeds = [run for run in runs_of(results) if dict(run.identity)["alpha"] == 1.0]
    values = [100 * run.al_rounds[2].measure("macro_f1") for run in seeds]
    assert len(values) == 2
    assert f"{sum(values) / 2:.1f}" != "30.5"  # the accuracy
    assert text.startswith("Macro F1 in percent by labels of all clients")
    assert f"| **{sum(values) / 2:.1f}** ± " in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["alpha=5"], "there are no such runs"),
        (["dataset=digits"], "the runs differ in alpha; say which are meant, as in alpha=VALUE"),
        (["datset=digits"], "did you mean 'dataset'"),
        (["alpha=1", "metric=loss"], "accuracy"),
    ],
)
def test_other_choices_of_runs_are_refused(results, words, sentence):
    with pytest.raises(UserError, match=sentence):
        few_labels_table(words, runs_of(results))


def test_a_document_with_a_picture_is_written_and_then_true(results, tmp_path):
    path = tmp_path / "FEW.md"
    path.write_text(DOCUMENT)
    command = ["document", str(path), "--from", str(results)]
    assert CliRunner().invoke(app, [*command, "--check"]).exit_code == 1
    assert CliRunner().invoke(app, command).exit_code == 0
    assert "![Digits, alpha 0.1](pictures/digits.svg)\n" in path.read_text()
    picture = tmp_path / "pictures" / "digits.svg"
    assert "auto  80.5" in picture.read_text()
    assert CliRunner().invoke(app, [*command, "--check"]).exit_code == 0
    picture.write_text(picture.read_text().replace("80.5", "90.5"))
    wrong = CliRunner().invoke(app, [*command, "--check"])
    assert isinstance(wrong.exception, UserError)
    assert "digits.svg does not say what" in str(wrong.exception)
