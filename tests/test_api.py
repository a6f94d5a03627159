"""What notebooks use: grids, runs and their pictures, tables and models, and callbacks."""

import re
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest

import fedactive
from fedactive.analysis.report import write_report
from fedactive.data.downloader import download
from fedactive.data.loader import check as check_data
from fedactive.data.loader import load as load_data
from fedactive.errors import ConfigurationError, DataError, RunError, UserError
from fedactive.record.export import export
from fedactive.registry import load_plugin

GRID = {
    "dataset": "digits",
    "augment": "none",
    "model": "linear",
    "clients": 3,
    "rounds": 2,
    "fl_rounds": 2,
    "local_epochs": 1,
    "device": "cpu",
    "workers": 1,
}


class Watch(fedactive.Callback):
    def __init__(self):
        self.told = []

    def begin(self, experiment, fl_rounds_done):
        self.told.append(("begin", experiment.strategy, fl_rounds_done))

    def on_query(self, al_round):
        self.told.append(("query", al_round))

    def on_evaluation(self, al_round, fl_round, evaluation):
        self.told.append(("evaluation", al_round, fl_round, evaluation.accuracy))

    def on_round(self, al_round, labelled, accuracy):
        self.told.append(("round", al_round, labelled, accuracy))

    def end(self):
        self.told.append(("end",))


def test_callbacks_are_told_of_queries_evaluations_and_rounds(small):
    watch = Watch()
    result = fedactive.run(small(rounds=1, fl_rounds=2, strategy="random"), fedactive.Silent(), [watch])
    accuracy = result.metrics["accuracy"].tolist()
    assert watch.told == [
        ("begin", "random", 0),
        ("query", 1),
        ("evaluation", 1, 0, accuracy[0]),
        ("evaluation", 1, 1, accuracy[1]),
        ("round", 1, result.metrics["labelled"].iloc[0], pytest.approx(np.mean(accuracy))),
        ("end",),
    ]


def test_a_callback_that_fails_ends_the_run_which_can_be_resumed(small):
    class Fails(fedactive.Callback):
        def on_round(self, al_round, labelled, accuracy):
            raise KeyError("mine")

    experiment = small(rounds=2, fl_rounds=2, strategy="random")
    with pytest.raises(KeyError, match="mine"):
        fedactive.run(experiment, fedactive.Silent(), [Fails()])
    assert len(fedactive.run(experiment, fedactive.Silent()).accuracy) == 2


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A grid of two strategies, run side by side as in a notebook."""
    runs = tmp_path_factory.mktemp("runs")
    return fedactive.compare(strategy=["random", "margin"], runs_dir=str(runs), jobs=2, **GRID)


def test_a_grid_gives_its_runs_curves_table_and_picture(compared):
    assert len(compared) == 2
    assert {result.curves()["strategy"].iloc[0] for result in compared} == {"random", "margin (global)"}
    curves, table = compared.curves(), compared.table()
    assert set(table.index.get_level_values("strategy")) == {"random", "margin (global)"}
    for (name, al_round), row in table.iterrows():
        same = curves[(curves["strategy"] == name) & (curves["al_round"] == al_round)]
        assert row["mean"] == pytest.approx(same["accuracy"].mean())
        assert row["seeds"] == 1
    figure = compared.plot("digits")
    assert isinstance(figure, matplotlib.figure.Figure)
    assert figure.axes[0].get_title() == "digits"
    assert len({line.get_color() for line in figure.axes[0].lines}) == 2  # a colour for each strategy


def test_a_run_is_opened_by_its_path_as_text(compared, digits):
    result = fedactive.load(str(compared.folders[0]))
    assert result == compared[0]
    assert result.selections["al_round"].tolist() == sorted(result.selections["al_round"])
    assert set(result.timings["phase"]) >= {"training", "evaluation"}
    assert len({line.get_color() for line in result.plot().axes[0].lines}) == 1
    predicted = result.model("cpu").predict(digits.test_inputs[:5, 0].numpy())
    assert len(predicted) == 5


def test_what_is_no_run_is_one_sentence(tmp_path):
    with pytest.raises(RunError, match=re.escape(f"{tmp_path} is not a run folder")):
        fedactive.load(str(tmp_path))
    with pytest.raises(ConfigurationError, match="strategy"):
        fedactive.compare(strategy=["logo", "lego"], **GRID)


def test_a_run_that_fails_is_named(tmp_path):
    settings = {**GRID, "strategy": "random", "runs_dir": tmp_path}
    folder = fedactive.Experiment(**settings).folder
    folder.mkdir()
    (folder / "checkpoint.pt").write_text("damaged")
    with pytest.raises(UserError, match=rf"1 of 1 runs failed; the first is {folder.name}: .*damaged.*log: "):
        fedactive.compare(**settings)


def test_every_public_name_is_there_and_in_the_reference():
    assert [name for name in fedactive.__all__ if not getattr(fedactive, name).__doc__] == []
    assert sorted(fedactive.LAZY) == fedactive.__all__
    reference = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
    described = re.findall(r"^::: fedactive\.(\w+)$", reference.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(described) == fedactive.__all__


def test_paths_are_text_everywhere(compared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"looked in data/"):
        load_data("cifar10", "data")
    assert {report.checksum for report in check_data("cifar10", "data")} == {"missing"}
    assert "nothing to download" in download("digits", "data")
    runs = str(compared.folders[0].parent)
    assert len(write_report([runs], "report.html", "data").configuration) == 2
    assert export([runs], "results").runs == 2
    assert set(fedactive.load_results("results")["strategy"]) == {"random", "margin"}
    assert len(fedactive.load_model(str(compared.folders[0]), device="cpu").classes) == 10
    (tmp_path / "mine.py").write_text("import os; os.mkdir('loaded')")
    load_plugin("mine.py")
    assert (tmp_path / "loaded").is_dir()
