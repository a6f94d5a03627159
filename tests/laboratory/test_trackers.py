"""Trackers, each with the real package and without a network: what they wrote is read back by that package."""

import pytest

from fedactive.errors import ConfigurationError
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from fedactive.registry import TRACKERS
from support.commands import cli


@pytest.fixture
def tracked(small):
    """A short run with this tracker, as others make it."""

    def make(track):
        return small(strategy="random", rounds=2, fl_rounds=2, track=track)

    return make


def test_a_tracker_decides_no_result(tracked):
    assert tracked("tensorboard").name == tracked("").name


def test_an_unknown_one_is_named(tracked):
    with pytest.raises(ConfigurationError, match=r"tracker.*tensorbord.*tensorboard"):
        tracked("tensorbord")
    assert {"mlflow", "tensorboard", "wandb"} <= set(TRACKERS)


def test_tensorboard_reads_what_was_measured(tracked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = run(tracked("tensorboard"), Silent())
    events = EventAccumulator(str(result.folder / "tensorboard")).Reload()
    measured = [(e.step, pytest.approx(e.value)) for e in events.Scalars("test/accuracy")]
    model = result.metrics.query("model == 'global'")
    assert measured == list(zip([1, 2, 3, 4], model["accuracy"], strict=True))
    ends = [(e.step, pytest.approx(e.value)) for e in events.Scalars("al_round/accuracy")]
    assert ends == list(zip([2, 4], result.accuracy, strict=True))
    assert [e.value for e in events.Scalars("al_round/labelled")] == model.groupby("al_round")[
        "labelled"
    ].first().tolist()


def run_by_command(experiment, folder):
    (folder / "experiment.toml").write_text(experiment.to_toml())
    done = cli("run", "--config", "experiment.toml", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_wandb_keeps_a_run_without_a_network(tracked, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    experiment = tracked("wandb")
    run_by_command(experiment, tmp_path)
    (file,) = experiment.folder.glob("wandb/offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert experiment.name.encode() in content
    assert content.count(b"test/accuracy") >= 4


def test_mlflow_has_the_run_and_its_metrics(tracked, tmp_path, monkeypatch):
    experiment = tracked("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database takes seconds to make
    run_by_command(experiment, tmp_path)
    (metric,) = tmp_path.glob("mlruns/*/*/metrics/test.accuracy")
    folder = metric.parent.parent
    assert [int(line.split()[2]) for line in metric.read_text().splitlines()] == [1, 2, 3, 4]
    assert (folder / "tags" / "fedactive.run").read_text() == experiment.name
    assert float((folder / "params" / "lr").read_text()) == experiment.lr
    assert "status: 3" in (folder / "meta.yaml").read_text()  # finished
