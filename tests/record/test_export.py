"""Runs exported to one file say exactly what their folders say."""

import re
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fedactive.cli.paper import app
from fedactive.errors import RunError
from fedactive.federation import QUERY_PHASES
from fedactive.laboratory.run import run_all
from fedactive.paper import TABLES
from fedactive.paper.reproduce import experiments, show
from fedactive.record.archive import Archive, remaining
from fedactive.record.export import export
from fedactive.record.finding import runs_in
from fedactive.record.results_file import FILE, read_results
from fedactive.record.run_reader import read_run
from support.run_folders import runs_of


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture(scope="module")
def stored(store, tmp_path_factory):
    """Runs of all tables, four AL rounds each; those of seed 2 were stopped there."""
    runs = tmp_path_factory.mktemp("stored") / "runs"
    own = [[0.1 * c for c in range(10)], [0.5] * 10]
    wanted = [
        e
        for name in ("accuracy", "algorithms", "emd")
        for e in experiments(name, seeds=[1, 2], datasets=["cifar10"], runs_dir=runs)
        if e.strategy == "logo" or (e.strategy == "entropy" and e.rho == 5)
    ]
    for e in wanted:
        labels = [[[0, 0, 3], [1]], [[1], [e.seed, 9]], [[], [2]], [[4], [4]]]
        store(e, [0.5, 0.6 + e.seed / 70, 0.6, 0.7], labels, own, finish=e.seed == 1)
    return runs


def logo(runs, seed=1, rounds=16, **changes):
    made = experiments("accuracy", seeds=[seed], datasets=["cifar10"], runs_dir=runs, **changes)
    return replace(next(e for e in made if e.strategy == "logo"), rounds=rounds)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_the_same_from_either(stored, results, name):
    export([stored], results)
    assert [path.name for path in results.iterdir()] == [FILE]
    ours = show(name, runs_of(results))
    pd.testing.assert_frame_equal(ours, show(name, runs_of(stored)), check_exact=True)
    if "seeds" in ours:
        assert ours["seeds"].max() == 2


def test_a_real_run_comes_back_whole(small, tmp_path, results):
    experiments = [
        small(strategy="logo", model="cnn4"),
        small(strategy="random", model="cnn4", alpha=float("inf")),
    ]
    folders = [result.folder for result in run_all(experiments)]
    export(folders, results)
    for folder, back in zip(folders, runs_of(results), strict=True):
        phases = back.al_rounds[1].seconds
        assert set(QUERY_PHASES) < set(phases)  # or else a query would cost nothing
        assert back.query_seconds_in(2) == sum(phases[phase] for phase in QUERY_PHASES) / 3
        run = read_run(folder)
        assert (back.name, back.identity, back.facts) == (run.name, run.identity, run.facts)
        assert (back.al_rounds, back.samples, back.ended_after) == (run.al_rounds, run.samples, 3)
        assert back.facts["hardware"]
        assert back.facts["finished"] >= back.facts["started"]
        metrics = pd.read_parquet(folder / "metrics.parquet")
        last = metrics[(metrics["model"] == "global") & (metrics["al_round"] == 3)]
        assert back.accuracy[3] == pytest.approx(100 * last["accuracy"].mean())
        chosen = pd.read_parquet(folder / "selections.parquet")
        counts = chosen[chosen["al_round"] <= 2].value_counts(["client", "label"])
        assert {key: back.labelled(2)[key] for key in counts.index} == counts.to_dict()
        assert back.labelled(2).sum() == counts.sum()
    assert str(tmp_path) not in (results / FILE).read_bytes().decode("latin-1")  # nobody's paths


def test_budgets_in_labels_and_in_percent_stand_in_one_file(small, tmp_path, results):
    counted = small(strategy="random", budget="7/client", rounds=2, fl_rounds=1)
    folders = [result.folder for result in run_all([counted, replace(counted, budget=2.0, rounds=1)])]
    export(folders, results)
    back = {run.settings["budget"]: run for run in runs_of(results)}
    assert back.keys() == {"7/client", 2.0}
    assert {run.identity for run in back.values()} == {read_run(folder).identity for folder in folders}
    assert [r.labelled for r in back["7/client"].al_rounds] == [21, 42]
    export([folders[1]], tmp_path / "percent")
    assert pq.read_schema(tmp_path / "percent" / FILE).field("budget").type == pa.float64()  # as ever


def test_more_runs_are_added_and_longer_ones_replace(store, runs, results, tmp_path):
    store(logo(runs), [0.5, 0.6])
    store(logo(runs, seed=2), [0.5])
    assert export([runs], results)[:3] == (2, 2, 0)
    other = tmp_path / "other"
    store(logo(other), [0.5, 0.6, 0.7])  # the same run, resumed elsewhere
    store(logo(other, seed=3), [0.5])
    assert export([other], results)[:3] == (3, 1, 1)
    assert [run.rounds for run in read_results(results).runs] == [3, 1, 1]
    shorter = export([runs / logo(runs).name], results)
    assert shorter[:3] == (3, 0, 0)
    assert "got less far" in shorter.skipped[0][1]
    assert [run.rounds for run in read_results(results).runs] == [3, 1, 1]


def test_of_two_that_got_as_far_the_finished_one_is_kept(store, runs, results, tmp_path):
    stopped, ended = logo(runs), logo(tmp_path / "other", rounds=2)
    sources = [store(stopped, [0.5, 0.6], finish=False), store(ended, [0.5, 0.6])]
    export(sources, results)
    (kept,) = read_results(results).runs
    assert kept.finished
    export(sources[:1], results)
    assert [run.finished for run in read_results(results).runs] == [kept.finished]


def test_results_can_be_joined_and_writing_twice_changes_nothing(store, runs, results, tmp_path):
    for seed in (1, 2):
        store(logo(runs, seed=seed), [0.5])
        export([runs / logo(runs, seed=seed).name], tmp_path / f"piece{seed}")
    export([tmp_path / "piece2", tmp_path / "piece1"], results)
    before = (results / FILE).read_bytes()
    export([runs], results)
    assert (results / FILE).read_bytes() == before
    assert [run.seed for run in read_results(results).runs] == [1, 2]


def test_one_run_with_two_results_is_refused(store, runs, results, tmp_path):
    store(logo(runs), [0.5])
    store(logo(tmp_path / "other"), [0.6])
    with pytest.raises(RunError, match=r"no run to export: .*with different results; leave one of them out"):
        export([runs, tmp_path / "other"], results)
    assert not results.exists()


def test_a_run_replaced_by_one_with_other_results_is_named(store, runs, results, tmp_path):
    store(logo(runs), [0.5])
    store(logo(tmp_path / "other"), [0.6])
    assert export([runs], results).changed == export([runs], results).changed == []
    ((where, what),) = export([tmp_path / "other"], results).changed
    assert where.parent == tmp_path / "other"
    assert what == f"replaces the same run in {results / FILE}, which had other results"
    (now,) = read_results(results).runs
    assert now.accuracy[1] == pytest.approx(60)


def test_what_cannot_be_used_is_named(store, runs, results, tmp_path):
    store(logo(runs), [0.5])
    begun = store(logo(runs, seed=2), [])
    damaged = store(logo(runs, seed=3), [0.5])
    (damaged / "metrics.parquet").write_bytes(b"PAR1")
    (tmp_path / "holiday").mkdir()
    done = export([runs, tmp_path / "holiday"], results)
    assert done.runs == 1
    reasons = dict(done.skipped)
    assert reasons[begun] == "has not completed an AL round yet"
    assert reasons[damaged].startswith("has an unreadable metrics.parquet: ")
    assert reasons[tmp_path / "holiday"].endswith("and holds no runs")
    with pytest.raises(RunError, match=r"no run to export: .*holiday is not a run folder"):
        export([tmp_path / "holiday"], tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def begun_just_now(folder):
    """As a run that was killed in its first moment leaves it."""
    for path in folder.iterdir():
        if path.name != "experiment.toml":
            path.unlink()


def test_a_run_killed_in_its_first_moment_is_no_obstacle(store, runs, results):
    store(logo(runs), [0.5, 0.6, 0.65, 0.7])
    begun = store(logo(runs, seed=2), [])
    begun_just_now(begun)
    assert show("accuracy", runs_of(runs), until=20)["seeds"].max() == 1
    wanted = [logo(runs, seed=seed, rounds=4) for seed in (1, 2)]
    assert remaining(wanted) == wanted[1:]
    assert export([runs], results).skipped == [(begun, "has not completed an AL round yet")]


def test_a_setting_of_a_newer_version_cannot_be_exported(store, runs, results, tmp_path):
    store(logo(runs), [0.5])
    newer = store(logo(runs, seed=2), [0.5])
    with (newer / "experiment.toml").open("a") as file:
        file.write('optimiser = "adam"\n')
    assert export([runs], results).skipped == [
        (newer, "has settings that this version of fedactive does not know: optimiser")
    ]
    store(logo(tmp_path / "other", seed=2), [0.6])  # the same as far as this version can tell
    archive = Archive([*runs_of(runs), *runs_of(tmp_path / "other")])
    assert archive.skipped == [
        (newer, "has settings that this version of fedactive does not know: optimiser")
    ]
    assert [run.where.parent for run in archive.find(logo(runs))] == [runs, tmp_path / "other"]


@pytest.mark.parametrize("content", [b"PAR1", b"", None])
def test_a_file_that_is_no_results_file_is_one_sentence(results, content, tmp_path):
    results.mkdir()
    if content is None:
        pq.write_table(pa.table({"run": ["a"]}), results / FILE)
    else:
        (results / FILE).write_bytes(content)
    ((where, why),) = runs_in(results).skipped
    assert where == results
    assert why.startswith("has an unreadable runs.parquet: ")
    assert "\n" not in why
    with pytest.raises(RunError, match=r"has an unreadable runs\.parquet: "):
        export([tmp_path], results)  # which would write another in its place


def test_a_results_file_without_a_column_is_one_sentence(store, runs, results):
    store(logo(runs), [0.5])
    export([runs], results)
    pq.write_table(pq.read_table(results / FILE).drop_columns(["queried"]), results / FILE)
    ((_, why),) = runs_in(results).skipped
    assert why == "has an unreadable runs.parquet: it has no queried"


def test_a_setting_that_an_older_file_does_not_know_is_its_default(store, runs, results):
    store(logo(runs), [0.5])
    export([runs], results)
    table = pq.read_table(results / FILE)
    pq.write_table(table.drop_columns(["algorithm_options"]), results / FILE)
    assert [run.identity for run in runs_of(results)] == [run.identity for run in runs_of(runs)]
    assert export([runs], results)[:3] == (1, 0, 1)
    assert "algorithm_options" in pq.read_schema(results / FILE).names


def test_the_commands(stored, results, tmp_path):
    def paper(*arguments):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
        return done.output

    assert re.search(r"results: runs (\d+), added \1, replaced 0", paper("export", stored, "-o", results))
    table = [paper("show", "accuracy", "--from", folder) for folder in (stored, results)]
    assert table[0] == table[1]
    paper("figure", "matrices", "--from", results, "-o", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_a_run_that_is_not_evaluated_after_every_fl_round_can_be_read(small, results):
    run = run_all([small(strategy="random", rounds=2, fl_rounds=8, evaluate_every=8)])[0]
    export([run.folder], results)
    (back,) = runs_of(results)
    assert back.accuracy.to_list() == pytest.approx((100 * run.accuracy).to_list())
    assert [len(r.accuracy) for r in back.al_rounds] == [8, 8]
