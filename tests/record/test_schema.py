"""Metrics against scikit-learn, and that one entry in the schema is all that a metric needs."""

import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss

from fedactive.analysis.report import write_report
from fedactive.evaluation import Evaluation, evaluate
from fedactive.laboratory.run import run
from fedactive.record.export import export
from fedactive.record.finding import find_runs
from fedactive.record.results_file import FILE
from fedactive.record.schema import METRICS, Metric, measure

UNSEEN = "ignore:y_pred contains classes not in y_true"  # scikit-learn says so; it counts them as we do


@pytest.mark.filterwarnings(UNSEEN)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6))
def test_metrics_are_those_of_scikit_learn(seed, images, classes):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(images, classes)), rng.integers(classes, size=images)
    found = measure(evaluate(torch.from_numpy(logits), torch.from_numpy(labels), classes))
    guesses = logits.argmax(1)
    assert found["accuracy"] == accuracy_score(labels, guesses)
    if len(set(labels)) > 1:  # with one class, scikit-learn takes the labels for binary ones
        assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(labels, guesses))
    assert found["macro_f1"] == pytest.approx(f1_score(labels, guesses, average="macro"))
    if classes > 1:
        shares = torch.from_numpy(logits).softmax(1).numpy()
        assert found["loss"] == pytest.approx(log_loss(labels, shares, labels=range(classes)))
    assert all(metric.low <= found[name] <= metric.high for name, metric in METRICS.items())


def test_metrics_by_hand():
    """Three of class 0, one of class 1, none of class 2; class 3 does not occur at all."""
    found = measure(Evaluation(tested=[3, 1, 0, 0], right=[2, 0, 0, 0], predicted=[2, 1, 1, 0], loss=0.5))
    assert found["accuracy"] == 2 / 4
    assert found["balanced_accuracy"] == (2 / 3 + 0) / 2
    assert found["macro_f1"] == pytest.approx((4 / 5 + 0 + 0) / 3)  # class 2 was predicted: it counts
    assert found["loss"] == 0.5
    assert found["class_accuracy"] == pytest.approx([2 / 3, 0.0, math.nan, math.nan], nan_ok=True)


def test_without_test_images_nothing_is_known():
    found = measure(evaluate(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), 3))
    assert all(math.isnan(found[name]) for name in METRICS)
    assert all(map(math.isnan, found["class_accuracy"]))


def test_numbers_are_shown_as_the_schema_says():
    shown = {name: (metric.heading, metric.show(12.345)) for name, metric in METRICS.items()}
    assert shown["macro_f1"] == ("macro F1 (%)", "12.3")
    assert shown["loss"] == ("loss", "12.345")
    assert METRICS["macro_f1"].show(math.nan) == "–"


@pytest.fixture
def toy(monkeypatch):
    """A metric of the test's own: the share of the test images that are taken for class 0."""
    metric = Metric("share of zeros", lambda e: e.predicted[0] / sum(e.tested))
    monkeypatch.setitem(METRICS, "zeros", metric)


def test_a_metric_is_one_entry(toy, small, tmp_path):
    """It is measured, exported, read again and reported."""
    result = run(small(strategy="random", rounds=1))
    table = result.metrics
    assert ((table["zeros"] >= 0) & (table["zeros"] <= 1)).all()
    assert [name for name in table if name in METRICS] == list(METRICS)
    export([result.folder], tmp_path / "results")
    assert pq.read_table(tmp_path / "results" / FILE)["zeros"].to_pylist() == [table["zeros"].mean()]
    for source in (result.folder, tmp_path / "results"):
        runs = write_report([source], tmp_path / "report.html")
        assert runs.curves["zeros"].tolist() == [100 * table["zeros"].mean()]
        page = (tmp_path / "report.html").read_text()
        assert "share of zeros (%)</button>" in page
        assert f'<span class="mean">{100 * table["zeros"].mean():.1f}</span>' in page


def test_a_metric_that_is_out_of_its_range_is_damage(small, monkeypatch):
    monkeypatch.setitem(METRICS, "zeros", Metric("share of zeros", lambda e: 2.0))
    result = run(small(strategy="random", rounds=1))
    ((where, why),) = find_runs([result.folder]).skipped
    assert where == result.folder
    assert why == "has an unreadable metrics.parquet: zeros 2, possible is 0 to 1"


def test_a_run_that_is_resumed_lacks_a_newer_metric_only_where_it_was_not_measured(small, monkeypatch):
    experiment = small(strategy="random", rounds=1)
    run(experiment)
    monkeypatch.setitem(METRICS, "zeros", Metric("share of zeros", lambda e: 0.25))
    table = run(replace(experiment, rounds=2)).metrics.set_index("al_round")
    assert table["zeros"].isna().tolist() == [True] * 3 + [False] * 3
