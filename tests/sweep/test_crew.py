"""Runs side by side in one process."""

import time
from contextlib import closing
from unittest.mock import Mock

import pandas as pd
import pytest

from fedactive.engines import EngineShelf, shelf
from fedactive.errors import InUseError, RunError
from fedactive.laboratory.run import run
from fedactive.record.run_folder import Run
from fedactive.sweep.crew import Crew


@pytest.fixture
def crew(tmp_path):
    crew = Crew(["fedactive.sweep.crew", 2], tmp_path / "crew.log")
    yield crew
    crew.dismiss()


def configured(experiment, folder):
    path = folder / f"{experiment.name}.toml"
    path.write_text(experiment.to_toml())
    return path


def wait(turn):
    while turn.poll() is None:
        time.sleep(0.05)
    return turn.poll()


def test_runs_of_a_crew_are_the_same_as_runs_alone(crew, tmp_path, small):
    experiments = [
        small(strategy=s, rounds=2, fl_rounds=2, runs_dir=tmp_path / "crew")
        for s in ("logo", "badge", "random")
    ]
    turns = [crew.start(configured(e, tmp_path)) for e in experiments]
    assert [wait(turn) for turn in turns] == [0, 0, 0]
    for e in experiments:
        together = pd.read_parquet(e.folder / "metrics.parquet")
        alone = run(small(strategy=e.strategy, rounds=2, fl_rounds=2, runs_dir=tmp_path / "alone"))
        pd.testing.assert_frame_equal(alone.metrics, together)
        assert "AL round 2/2, test accuracy" in (tmp_path / f"{e.name}.log").read_text()


def test_one_that_fails_leaves_its_reason_and_the_crew_goes_on(crew, tmp_path, small):
    lost = small(dataset="cifar10", data_dir=tmp_path / "nowhere", runs_dir=tmp_path)
    assert wait(crew.start(configured(lost, tmp_path))) == 1
    assert (tmp_path / f"{lost.name}.log").read_text().startswith("fedactive: ")
    fine = small(strategy="random", rounds=1, fl_rounds=1, runs_dir=tmp_path)
    assert wait(crew.start(configured(fine, tmp_path))) == 0


def test_an_engine_that_was_closed_is_not_used_again(small, digits, monkeypatch):
    """The next one may have failed to start, for lack of memory, say."""
    with EngineShelf() as engines:
        first = engines.get(small(), digits)
        with monkeypatch.context() as patched:
            patched.setattr(shelf, "make_engine", Mock(side_effect=RunError("no memory")))
            with pytest.raises(RunError):
                engines.get(small(batch_size=32), digits)
        assert engines.get(small(), digits) is not first


def test_what_a_plugin_prints_is_no_answer(tmp_path, small):
    plugin = tmp_path / "talkative.py"
    plugin.write_text("print('hello')")
    crew = Crew(["fedactive.sweep.crew", 1, plugin], tmp_path / "crew.log")
    turn = crew.start(
        configured(small(strategy="random", rounds=1, fl_rounds=1, runs_dir=tmp_path), tmp_path)
    )
    assert wait(turn) == 0
    crew.dismiss()
    assert (tmp_path / "crew.log").read_text() == "hello\n"


def test_when_the_process_ends_all_its_runs_have_ended(crew, tmp_path, small):
    turn = crew.start(configured(small(strategy="random", fl_rounds=500, runs_dir=tmp_path), tmp_path))
    assert turn.poll() is None
    turn.terminate()
    assert turn.wait() != 0
    assert turn.poll() != 0
    assert not crew.alive


def test_a_folder_in_use_is_another_answer_than_a_failure(crew, tmp_path, small):
    experiment = small(runs_dir=tmp_path)
    with closing(Run(experiment)):
        assert wait(crew.start(configured(experiment, tmp_path))) == InUseError.exit_code
