"""Damaged run folders and results files: one sentence each, and never in the way of the sound runs beside them."""

import os
import random
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedactive.analysis.curve_pictures import plot_learning_curves
from fedactive.analysis.curves import learning_curves
from fedactive.analysis.report import write_report
from fedactive.errors import UserError
from fedactive.paper import TABLES as PAPER_TABLES
from fedactive.paper.claims import claims
from fedactive.paper.figures import FigureRequest, figure
from fedactive.paper.reproduce import experiments, show
from fedactive.record.archive import Archive, remaining
from fedactive.record.export import export
from fedactive.record.finding import find_runs
from fedactive.record.results_file import FILE
from fedactive.record.run_folder import is_finished, require_same_origin
from fedactive.record.run_tables import RunTables
from support.damage import damage_folder, damage_results

SECONDS = 5
PICTURES = ("curves", "matrices", "cost")  # that take a moment only

# ------------------------------------------------------------------------------ what must go on nevertheless


@pytest.fixture(scope="module")
def sound(store, tmp_path_factory):
    """Four finished runs of the paper's LoGo, one per seed, as folders and as a results file."""
    place = tmp_path_factory.mktemp("sound")
    local = [[0.1 * c for c in range(10)], [0.5] * 10]
    made = experiments(
        "accuracy", until=20, datasets=["cifar10"], strategies=["logo"], runs_dir=place / "runs"
    )
    for e in made:
        labels = [[[0, 0, 3], [1]], [[1], [e.seed, 9]], [[], [2]], [[4], [4]]]
        store(e, [0.5, 0.6, 0.62, 0.64 + e.seed / 100], labels, local)
    export([place / "runs"], place / "results")
    # What the first picture and the first table import takes longer than they do.
    figure("curves", FigureRequest(Archive(find_runs([place / "runs"]).runs), place / "curves.svg"))
    return place, made


def attempt(what, *arguments):
    """The answer, or None if there is a sentence instead; anything else, and what takes too long, fails."""
    begun = time.process_time()  # other tests run beside this one
    try:
        return what(*arguments)
    except UserError as error:
        sentence = str(error)
    finally:
        assert time.process_time() - begun < SECONDS
    assert "\n" not in sentence
    assert len(sentence) < 5000
    return None


def try_everything(source, place, rng):
    """Read what lies there and export it, and use it in one more way."""
    runs, skipped = attempt(find_runs, [source])
    assert all("\n" not in why for _, why in skipped)
    attempt(export, [source], place / "exported")
    table, picture = rng.choice(sorted(PAPER_TABLES)), rng.choice(PICTURES)
    ways = (
        lambda: write_report([source], place / "report.html", place),
        lambda: show(table, runs),
        lambda: figure(picture, FigureRequest(Archive(runs), place / "figure.svg")),
        lambda: claims(Archive(runs), until=20, datasets=["cifar10"]),
        lambda: plot_learning_curves(learning_curves([source]), "", place / "curves.svg"),
    )
    attempt(rng.choice(ways))
    return runs


def use_damaged_folder(sound, seed):
    place, made = sound
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(place / "runs", Path(name) / "runs"))
        bad = replace(made[0], runs_dir=folder)
        damage_folder(folder / bad.name, rng)
        runs = try_everything(folder, Path(name), rng)
        assert {2, 3, 4} <= {run.seed for run in runs if run.where.name != bad.name}
        attempt(remaining, [bad])
        attempt(is_finished, bad)
        attempt(require_same_origin, bad, None)
        for table in ("metrics", "selections"):
            attempt(getattr, RunTables(folder / bad.name), table)


def use_damaged_results(sound, seed):
    place, made = sound
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(place / "results", Path(name) / "results"))
        other = Path(shutil.copytree(place / "runs" / made[3].name, Path(name) / "other"))
        damage_results(folder, rng)
        try_everything(folder, Path(name), rng)
        assert attempt(find_runs, [folder, other]).runs[-1].where == other
        attempt(export, [other], folder)


# Thousands take minutes: DAMAGES=2000 pytest tests/record/test_damage.py
MANY = int(os.environ.get("DAMAGES", "25"))
quick = settings(max_examples=MANY, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(seed=st.integers(0, 2**32))
def test_a_damaged_run_folder_never_stops_the_others(sound, seed):
    use_damaged_folder(sound, seed)


@quick
@given(seed=st.integers(0, 2**32))
def test_a_damaged_results_file_is_no_traceback(sound, seed):
    use_damaged_results(sound, seed)


# ------------------------------------------------------------------------------------ known cases, one by one


def change(table, column, row, value):
    """The table with another value there, be it a list."""
    values = table[column].tolist()
    values[row] = value
    return table.assign(**{column: pd.Series(values, index=table.index, dtype=object)})


@pytest.mark.parametrize(
    ("name", "spoil", "why"),
    [
        ("metrics", lambda t: t.assign(accuracy=30.0), "accuracy 30, possible is 0 to 1"),
        ("metrics", lambda t: t.assign(macro_f1=-0.1), "macro_f1 -0.1, possible is 0 to 1"),
        ("metrics", lambda t: t.assign(fl_round=1), "there are two rows for one model"),
        ("metrics", lambda t: t.assign(fl_round=10**9), "fl_round 1e+09, possible is 1 to 100"),
        ("metrics", lambda t: t[t["al_round"] != 2], "its AL rounds are not 1, 2, 3 and so on"),
        ("metrics", lambda t: t.assign(labelled=-t["labelled"]), "labelled -"),
        ("metrics", lambda t: t.assign(labelled=5), "labels by class do not add up"),
        ("metrics", lambda t: t[t["al_round"] < 4], "al_round 4, possible is 1 to 3"),
        ("metrics", lambda t: t[t["model"] == "local"], "no row of the global model"),
        ("metrics", lambda t: change(t, "class_accuracy", 3, [0.5]), "the number of classes differs"),
        ("selections", lambda t: t[t["al_round"] < 4], "the last 1 of its 4 AL rounds are missing"),
        ("selections", lambda t: t.assign(client=10**9), "client 1e+09, possible is 0 to 9"),
        ("selections", lambda t: t.assign(label=10), "label 10, possible is -1 to 9"),
        ("timings", lambda t: t.assign(seconds=-1.0), "seconds -1, possible is"),
        ("timings", lambda t: t.assign(seconds=np.nan), "values are missing"),
    ],
)
def test_numbers_that_cannot_be_true_are_named(sound, tmp_path, name, spoil, why):
    place, made = sound
    folder = Path(shutil.copytree(place / "runs", tmp_path / "runs"))
    file = folder / made[0].name / f"{name}.parquet"
    spoil(pd.read_parquet(file)).to_parquet(file, index=False)
    runs, ((where, what),) = find_runs([folder])
    assert where == folder / made[0].name
    assert why in what
    assert {run.seed for run in runs} == {2, 3, 4}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda t: change(t, "accuracy", 0, [30.0]), "accuracy 30, possible is 0 to 1"),
        (lambda t: change(t, "accuracy", 0, []), "accuracies of 0 FL rounds"),
        (lambda t: change(t, "loss", 0, -1.0), "loss -1, possible is 0 to inf"),
        (lambda t: t.drop(3), "the last 1 of its 4 AL rounds are missing"),
        (lambda t: t.drop(1), "its AL rounds are not 1, 2, 3 and so on"),
        (lambda t: change(t, "alpha", 0, -1.0), "its settings differ"),
        (lambda t: change(t, "labelled", 1, 0), "labels get fewer"),
        (lambda t: change(t, "queried", 1, [[1], [2]]), "rows differ in length"),
        (lambda t: change(t, "class_accuracy", 2, None), "cannot be read"),
        (lambda t: change(t, "finished", 0, "yesterday"), "cannot be read: Invalid isoformat string"),
    ],
)
def test_of_many_runs_in_a_file_the_bad_one_is_named(sound, tmp_path, spoil, why):
    place, _ = sound
    table = pq.read_table(place / "results" / FILE)
    rows = spoil(pd.DataFrame(table.to_pylist())).to_dict("records")
    clean = [{k: None if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(clean, table.schema), tmp_path / FILE)
    runs, ((where, what),) = find_runs([tmp_path])
    assert where == tmp_path / FILE
    assert "-s1-" in what
    assert why in what
    assert {run.seed for run in runs} == {2, 3, 4}


def test_a_results_file_that_does_not_know_newer_columns_has_them_as_missing(sound, tmp_path):
    place, _ = sound
    older = pq.read_table(place / "results" / FILE).drop_columns(
        ["loss", "macro_f1", "ended_after", "samples"]
    )
    pq.write_table(older, tmp_path / FILE)
    runs, skipped = find_runs([tmp_path])
    assert skipped == []
    assert [run.ended_after for run in runs] == [None] * 4
    assert np.isnan([r.measure("macro_f1") for run in runs for r in run.al_rounds]).all()
    assert not np.isnan([r.measure("balanced_accuracy") for run in runs for r in run.al_rounds]).any()
    write_report([tmp_path], tmp_path / "report.html")
    assert '<span class="mean">–</span>' in (tmp_path / "report.html").read_text()


def test_a_flipped_bit_is_noticed(sound, tmp_path):
    """Pages have checksums: an accuracy that is wrong but possible does not pass."""
    place, made = sound
    file = place / "runs" / made[0].name / "metrics.parquet"
    content = file.read_bytes()
    metadata = pq.read_metadata(file).row_group(0)
    loss = next(
        metadata.column(i) for i in range(metadata.num_columns) if metadata.column(i).path_in_schema == "loss"
    )
    where = loss.data_page_offset + loss.total_compressed_size - 10
    folder = Path(shutil.copytree(file.parent, tmp_path / "run"))
    (folder / "metrics.parquet").write_bytes(
        content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :]
    )
    ((_, why),) = find_runs([folder]).skipped
    assert "crc checksum" in why.lower()
