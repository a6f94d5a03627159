"""Run folders, whole and damaged, as tidy tables."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from fedactive.analysis.results import read_runs
from fedactive.errors import RunError
from fedactive.experiment import Experiment
from fedactive.laboratory.run import run_all
from fedactive.record.export import export
from fedactive.record.results_file import FILE
from fedactive.record.state import round_accuracy


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
        for al_round, seconds in timings.groupby("al_round"):
            by_phase = seconds.groupby("phase")["seconds"].sum()
            assert runs.seconds.loc[run, al_round].dropna().to_dict() == pytest.approx(by_phase.to_dict())


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


def cut_in_a_line(folder):
    text = (folder / "experiment.toml").read_text()
    (folder / "experiment.toml").write_text(text[: text.index('strategy = "') + len('strategy = "')])


def not_a_number(folder):
    table = pd.read_parquet(folder / "metrics.parquet")
    table.loc[table["model"] == "global", "accuracy"] = float("nan")
    table.to_parquet(folder / "metrics.parquet", index=False)


def without_a_column(folder):
    table = pd.read_parquet(folder / "selections.parquet").drop(columns="label")
    table.to_parquet(folder / "selections.parquet", index=False)


def with_line(line):
    """The setting of that line, as given there."""

    def damage(folder):
        name = line.split(" = ")[0]
        toml = folder / "experiment.toml"
        others = [old for old in toml.read_text().splitlines() if not old.startswith(f"{name} = ")]
        toml.write_text("".join(f"{text}\n" for text in [*others, line]))

    return damage


def begun_just_now(folder):
    """As a run that was killed in its first moment leaves it."""
    for path in folder.iterdir():
        if path.name != "experiment.toml":
            path.unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda f: (f / "done.json").unlink(), "is not finished; start its command again to resume it"),
        (lambda f: (f / "experiment.toml").unlink(), "is not a run folder: it has no experiment.toml"),
        (other_format, "has format 99; this version of fedactive reads format 1"),
        (lambda f: (f / "done.json").write_text("[]"), "has an unreadable done.json"),
        (cut_in_half("environment.json"), "has an unreadable environment.json"),
        (cut_in_a_line, "has an unreadable experiment.toml"),
        (cut_in_half("metrics.parquet"), "has an unreadable metrics.parquet"),
        (cut_in_half("clients.parquet"), "has an unreadable clients.parquet"),
        (lambda f: (f / "selections.parquet").unlink(), "has an unreadable selections.parquet"),
        (lambda f: (f / "timings.parquet").write_bytes(b""), "has an unreadable timings.parquet"),
        (
            not_a_number,
            "has results that cannot be true: it has no accuracy, or one that is not a number",
        ),
        (without_a_column, "has an unreadable selections.parquet"),
        (
            lambda f: (f / "experiment.toml").write_bytes(b"\xff\xfe"),
            "has an unreadable experiment.toml",
        ),
        (with_line("alpha = [0.1, 1.0]"), "has an unreadable experiment.toml: its alpha is neither"),
        (begun_just_now, "is not finished; start its command again to resume it"),
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
        tmp_path / "empty": "is not a run folder (it has no experiment.toml) and holds no runs",
        tmp_path / "missing": "cannot be opened: No such file or directory",
    }


def test_a_results_file_without_runs_is_no_traceback(finished, tmp_path):
    export([finished], tmp_path)
    pq.write_table(pq.read_table(tmp_path / FILE).slice(0, 0), tmp_path / FILE)
    with pytest.raises(RunError, match="holds no runs"):
        read_runs([tmp_path])


def test_a_folder_of_runs_among_runs_is_told_from_other_folders(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "runs" / "demo")
    shutil.copytree(one(finished), tmp_path / "runs" / "one")
    ((folder, why),) = read_runs([tmp_path / "runs"]).skipped
    assert folder.name == "demo"
    assert why == "is a folder of runs; name it, too, to read them"


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


def prolonged(folder):
    """The same run, gone on for another AL round."""
    toml = folder / "experiment.toml"
    run_all([Experiment.from_toml(toml.read_text(), rounds=3, runs_dir=folder.parent)])


@pytest.mark.parametrize("longer_first", [False, True])
def test_of_two_copies_the_longer_counts(finished, runs, longer_first):
    folder = one(runs)
    prolonged(folder)
    short = finished / folder.name
    read = read_runs([folder, short] if longer_first else [short, folder])
    assert read.curves["al_round"].tolist() == [1, 2, 3]
    assert read.skipped == [(short, f"is a shorter copy of {folder}")]


def test_of_one_experiment_with_two_results_neither_counts(finished, runs):
    folder = one(runs)
    table = pd.read_parquet(folder / "metrics.parquet")
    table["accuracy"] /= 2
    table.to_parquet(folder / "metrics.parquet", index=False)
    folder = folder.rename(folder.with_name("renamed"))  # still the same configuration
    read = read_runs([finished, runs])
    assert len(read.configuration) == 3
    reasons = {path: why for path, why in read.skipped if "with different results" in why}
    assert reasons.keys() == {folder, finished / one(finished).name}
    assert f"is the same run as {folder}" in reasons[finished / one(finished).name]


def test_folders_of_one_name_are_told_apart(finished, tmp_path):
    folders = [
        shutil.copytree(one(finished, pattern), tmp_path / str(k) / "run")
        for k, pattern in enumerate(("digits-random*", "digits-entropy*"))
    ]
    read = read_runs(folders)
    assert read.configuration["run"].tolist() == ["run", "run (2)"]
    assert read.curves.groupby("run")["strategy"].unique().map(list).to_dict() == {
        "run": ["random"],
        "run (2)": ["entropy (global)"],
    }


def test_a_setting_that_only_a_newer_version_knows_tells_runs_apart(finished, runs):
    folder = one(runs)
    with_line('optimiser = "adam"')(folder)
    read = read_runs([folder, finished / folder.name])
    assert read.skipped == []
    assert read.configuration["setting"].tolist() == ["optimiser adam", "optimiser None"]


# -------------------------------------------------------------------------------------- exported results


@pytest.fixture
def exported(finished, tmp_path):
    export([finished], tmp_path / "results")
    return tmp_path / "results"


def test_exported_results_give_the_same_tables(finished, exported):
    ours, theirs = read_runs([exported]), read_runs([finished])
    for table in ("curves", "seconds"):
        pd.testing.assert_frame_equal(getattr(ours, table), getattr(theirs, table))
    columns = ["run", "label", "setting", "samples", "hardware", "started", "finished", "seconds", "alpha"]
    pd.testing.assert_frame_equal(ours.configuration[columns], theirs.configuration[columns])
    for name, counts in theirs.queried.items():
        assert ours.queried[name].tolist() == counts.tolist()
    assert ours.skipped == []


def test_runs_and_their_exported_results_count_once(runs, exported):
    read = read_runs([exported, runs])
    assert len(read.configuration) == 4
    assert [reason for _, reason in read.skipped] == [f"is a copy of {exported / FILE}"] * 4


def test_of_many_runs_in_a_file_the_unfinished_is_named(runs, tmp_path):
    folder = one(runs)
    (folder / "done.json").unlink()
    export([runs], tmp_path / "results")
    read = read_runs([tmp_path / "results"])
    assert len(read.configuration) == 3
    ((path, reason),) = read.skipped
    assert path == tmp_path / "results" / FILE
    assert reason.startswith(f"has {folder.name}, which is not finished")


def test_a_file_without_the_number_of_samples_has_shares_as_budgeted(exported):
    table = pq.read_table(exported / FILE)
    pq.write_table(table.drop_columns(["samples"]), exported / FILE)
    assert read_runs([exported]).curves["labelled"].unique().tolist() == [5.0, 10.0]
