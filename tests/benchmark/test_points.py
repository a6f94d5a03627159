"""Runs become points: found by their settings, as far as the suite goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedactive.benchmark.points import areas, mean_scores, read_points
from fedactive.benchmark.suite import read_suite
from fedactive.record.archive import Archive
from support.run_folders import runs_of

SUITE = """
question = "Which?"
methods = ["random", "entropy selector=local", "logo"]
seeds = [1, 2]
metrics = ["accuracy", "macro_f1"]

[settings]
dataset = "digits"
augment = "none"
budget = {budget}
rounds = 3
fl_rounds = 6
"""


@pytest.mark.parametrize(("budget", "labelled", "unit"), [("5", 10.0, "%"), ('"2/client"', 8.0, "labels")])
def test_points_of_runs(store, runs, budget, labelled, unit):
    suite = read_suite("own", SUITE.format(budget=budget))
    for e in suite.experiments(runs_dir=runs):
        if e.strategy == "random":
            store(replace(e, rounds=4), [0.5, 0.6, 0.7, 0.9])  # beyond the suite
        elif e.strategy == "entropy" and e.seed == 1:
            store(e, [0.5, 0.8])  # not at its end yet
    points = read_points(suite, Archive(runs_of(runs)))
    assert set(points["method"]) == {"random", "entropy (local)"}
    assert points["al_round"].max() == 3
    assert points.groupby("method")["complete"].first().to_dict() == {
        "random": True,
        "entropy (local)": False,
    }
    second = points[(points["method"] == "random") & (points["al_round"] == 2)].iloc[0]
    assert (second["labelled"], second["unit"]) == (labelled, unit)
    assert second["accuracy"] == pytest.approx(60)
    assert second["seconds"] == pytest.approx(4.0 / 10)  # of ten clients
    assert areas(points)["area"].tolist() == pytest.approx([60, 60])
    means = mean_scores(points)
    assert means.loc["digits", 2].to_dict() == pytest.approx({"random": 60, "entropy (local)": 80})
    assert 1 not in means.index.get_level_values("al_round")
    assert read_points(suite, Archive(runs_of(runs)), precision="bf16").empty
