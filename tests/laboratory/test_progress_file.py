"""progress.json: where a run is, for another process."""

import json

import pytest

from fedactive.laboratory import progress_file
from fedactive.laboratory.progress_file import Milestone, ProgressFile, progress_path, read_milestone
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from support.evaluations import evaluation


@pytest.fixture
def begun(small):
    experiment = small(rounds=2, fl_rounds=4)
    progress_path(experiment).parent.mkdir(parents=True)
    assert read_milestone(experiment) is None
    writer = ProgressFile()
    writer.begin(experiment, fl_rounds_done=1)
    return experiment, writer


def test_it_is_written_now_and_then_and_when_an_al_round_ends(begun, monkeypatch):
    experiment, writer = begun
    assert read_milestone(experiment) == Milestone(1)
    writer.on_evaluation(1, 1, evaluation([0.5]))  # too soon
    assert read_milestone(experiment) == Milestone(1)
    monkeypatch.setattr(progress_file, "SECONDS_BETWEEN_WRITES", 0.0)
    writer.on_evaluation(1, 2, evaluation([0.625]))
    assert read_milestone(experiment) == Milestone(3, 1, 0.625)
    monkeypatch.setattr(progress_file, "SECONDS_BETWEEN_WRITES", 1e9)
    writer.on_evaluation(1, 3, evaluation([0.75]))
    assert read_milestone(experiment) == Milestone(4, 1, 0.75)
    writer.on_evaluation(2, 0, evaluation([0.8]))
    writer.end()
    assert read_milestone(experiment) == Milestone(5, 2, 0.8)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"fl_rounds": 1, "mood": 2}'])
def test_a_damaged_one_says_nothing(begun, content):
    experiment, _ = begun
    progress_path(experiment).write_text(content)
    assert read_milestone(experiment) is None


def test_a_disk_without_room_ends_no_run(begun, monkeypatch):
    _, writer = begun

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress_file, "write_json", full)
    writer.on_evaluation(1, 3, evaluation([0.5]))


def test_a_run_leaves_its_last_milestone(small):
    experiment = small(rounds=2, fl_rounds=2, strategy="random")
    result = run(experiment, Silent())
    written = json.loads((result.folder / "progress.json").read_text())
    last = result.metrics.query("model == 'global'").iloc[-1]
    assert written == {"fl_rounds": 4, "al_round": 2, "accuracy": pytest.approx(last["accuracy"])}
