"""Run folders, whole and damaged, as tidy tables."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from fedactive.analysis.results import read_runs
from fedactive.errors import RunError
from fedactive.experiment import Experiment
from fedactive.laboratory import run_all
from fedactive.state import round_accuracy


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Four finished runs: two strategies, two settings, one seed."""
    folder = tmp_path_factory.mktemp("results") / "runs"
    common = {"dataset": "digits", "clients": 3, "rounds": 2, "fl_rounds": 6, "local_epochs": 1}
    more = {"augment": "none", "device": "cpu", "workers": 1, "runs_dir": folder}
    cases = [
        ("random", "auto", 0.1),
        ("random", "auto", 1.0),
        ("entropy", "global", 0.1),
        ("entropy", "global", 1.0),
    ]
    run_all([Experiment(strategy=s, selector=m, alpha=a, **common, **more) for s, m, a in cases])
    return folder


@pytest.fixture
def runs(finished, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(finished, tmp_path / "runs"))


def one(runs, pattern="digits-random*"):
    return sorted(runs.glob(pattern))[0]


def test_the_tables_hold_what_the_folders_hold(finished):
    (finished / "logs").mkdir(exist_ok=True)
    runs = read_runs([finished])
    assert runs.skipped == []  # neither logs nor .first-rounds is mistaken for a run
    assert (finished / ".first-rounds").exists()
    table = runs.configuration.set_index("run")
    assert len(table) == 4
    assert set(table["label"]) == {"random", "entropy (global)"}
    assert set(table["setting"]) == {"alpha 0.1", "alpha 1.0"}
    assert set(table["fl_rounds"]) == {6}
    assert table["hardware"].str.contains("cores").all()
    assert (table["started"] <= table["finished"]).all()
    for run in table.index:
        metrics, selections, timings, clients = (
            pd.read_parquet(finished / run / f"{name}.parquet")
            for name in ("metrics", "selections", "timings", "clients")
        )
        curve = runs.curves[runs.curves["run"] == run].set_index("al_round")
        assert curve["accuracy"].to_numpy() == pytest.approx(100 * round_accuracy(metrics).to_numpy())
        labels = selections.groupby("al_round").size().cumsum()
        assert curve["labels"].tolist() == labels.tolist()
        assert curve["labelled"].to_numpy() == pytest.approx(100 * labels.to_numpy() / len(clients))
        assert set(curve["strategy"]) == {table.loc[run, "label"]}
        counts = pd.crosstab([selections["al_round"], selections["client"]], selections["label"])
        assert runs.queried[run].shape == (2, 3, 10)
        assert runs.queried[run].reshape(6, 10)[:, counts.columns].tolist() == counts.to_numpy().tolist()
        seconds = timings.groupby("phase")["seconds"].sum()
        assert runs.seconds.loc[run].dropna().to_dict() == pytest.approx(seconds.to_dict())


def test_a_run_folder_itself_may_be_given_and_given_twice(finished):
    folder = one(finished)
    runs = read_runs([folder, folder, finished])
    assert len(runs.configuration) == 4
    assert runs.skipped == []


def test_a_strategy_that_is_not_loaded_is_no_obstacle(runs):
    toml = one(runs) / "experiment.toml"
    toml.write_text(toml.read_text().replace('strategy = "random"', 'strategy = "of_a_plugin"'))
    assert "of_a_plugin" in set(read_runs([runs]).configuration["label"])


def test_a_setting_that_an_older_run_does_not_know_is_its_default(runs):
    folder = one(runs)
    lines = (folder / "experiment.toml").read_text().splitlines()
    (folder / "experiment.toml").write_text(
        "".join(f"{line}\n" for line in lines if not line.startswith("mu "))
    )
    assert set(read_runs([runs]).configuration["setting"]) == {"alpha 0.1", "alpha 1.0"}


def other_format(folder):
    (folder / "done.json").write_text(json.dumps({"format": 99}))


def cut_in_half(name):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return damage


def not_a_number(folder):
    table = pd.read_parquet(folder / "metrics.parquet")
    table.loc[0, "accuracy"] = float("nan")
    table.to_parquet(folder / "metrics.parquet", index=False)


def without_a_column(folder):
    table = pd.read_parquet(folder / "selections.parquet").drop(columns="label")
    table.to_parquet(folder / "selections.parquet", index=False)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda f: (f / "done.json").unlink(), "is not finished; start its command again to resume it"),
        (lambda f: (f / "experiment.toml").unlink(), "is no run folder: it has no experiment.toml"),
        (other_format, "has format 99; this version of fedactive reads format 1"),
        (lambda f: (f / "done.json").write_text("[]"), "has an unreadable done.json"),
        (cut_in_half("environment.json"), "has an unreadable environment.json"),
        (cut_in_half("experiment.toml"), "has an unreadable experiment.toml"),
        (cut_in_half("metrics.parquet"), "has an unreadable metrics.parquet"),
        (cut_in_half("clients.parquet"), "has an unreadable clients.parquet"),
        (lambda f: (f / "selections.parquet").unlink(), "has an unreadable selections.parquet"),
        (lambda f: (f / "timings.parquet").write_bytes(b""), "has an unreadable timings.parquet"),
        (
            not_a_number,
            "has an unreadable metrics.parquet: it has no accuracy, or one that is not a number",
        ),
        (without_a_column, "has an unreadable selections.parquet"),
        (
            lambda f: (f / "experiment.toml").write_bytes(b"\xff\xfe"),
            "has an unreadable experiment.toml",
        ),
    ],
)
def test_a_damaged_run_is_skipped_with_its_reason(runs, damage, reason):
    folder = one(runs)
    damage(folder)
    read = read_runs([runs])
    assert len(read.configuration) == 3
    assert [path for path, _ in read.skipped] == [folder]
    assert reason in read.skipped[0][1]
    assert "\n" not in read.skipped[0][1]


def test_paths_that_are_no_folders_of_runs_are_named(finished, tmp_path):
    (tmp_path / "empty").mkdir()
    read = read_runs([finished, tmp_path / "empty", tmp_path / "missing"])
    assert dict(read.skipped) == {
        tmp_path / "empty": "is no run folder (it has no experiment.toml) and holds no runs",
        tmp_path / "missing": "cannot be opened: No such file or directory",
    }


def test_nothing_usable_is_an_error(tmp_path):
    with pytest.raises(RunError, match=r"no finished run to read: .*missing cannot be opened"):
        read_runs([tmp_path / "missing"])
    with pytest.raises(RunError, match="no folder was given"):
        read_runs([])


def test_a_copy_counts_once(finished, runs):
    read = read_runs([finished, runs])
    assert len(read.configuration) == 4
    assert len(read.skipped) == 4
    assert all(reason.startswith("is a copy of ") for _, reason in read.skipped)


def test_one_experiment_with_two_results_is_refused(finished, runs):
    folder = one(runs)
    table = pd.read_parquet(folder / "metrics.parquet")
    table["accuracy"] /= 2
    table.to_parquet(folder / "metrics.parquet", index=False)
    with pytest.raises(RunError) as error:
        read_runs([finished, runs])
    assert str(folder) in str(error.value)
    assert str(finished / folder.name) in str(error.value)
    folder.rename(folder.with_name("renamed"))  # still the same configuration
    with pytest.raises(RunError, match="renamed"):
        read_runs([finished, runs])
