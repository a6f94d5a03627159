import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedactive.analysis.curve_pictures import plot_learning_curves
from fedactive.analysis.curves import axis_of, learning_curves, mean_curves, percents
from fedactive.analysis.pictures import spread
from fedactive.analysis.report import write_report
from fedactive.cli.tables import print_accuracy
from fedactive.laboratory.run import run
from support.run_folders import runs_of


def test_curves_come_from_run_folders(small):
    results = [run(small(strategy="entropy", selector="local", seed=seed, rounds=2)) for seed in (1, 2)]
    curves = learning_curves([result.folder for result in results])
    assert curves["strategy"].unique().tolist() == ["entropy (local)"]
    assert curves["labelled"].unique() == pytest.approx([100 * 69 / 1438, 100 * 138 / 1438])
    means = mean_curves(curves)
    expected = 50 * (results[0].accuracy + results[1].accuracy)
    assert means.loc["entropy (local)"].to_numpy() == pytest.approx(expected.to_numpy())
    folder = str(results[0].folder.parent)  # as one types it in a notebook
    assert learning_curves([folder]).equals(curves)
    assert [run.seed for run in runs_of(folder)] == [1, 2]


def test_where_budgets_count_labels_so_do_curves(small, tmp_path, capsys):
    counted = small(strategy="random", budget="7/client", rounds=2, fl_rounds=1)
    runs = [run(counted).folder, run(replace(counted, seed=2)).folder]
    curves = learning_curves(runs)
    assert curves["labels"].tolist() == [21, 42] * 2
    print_accuracy(curves, "")
    assert re.search(r"strategy .* seeds .* 21 .* 42 ", capsys.readouterr().out)
    plot_learning_curves(curves, "title", tmp_path / "curves.svg")
    assert "labels of all clients" in (tmp_path / "curves.svg").read_text()
    write_report(runs, tmp_path / "counted.html")
    page = (tmp_path / "counted.html").read_text()
    assert "labels of all clients" in page
    assert "% of all samples" not in page
    mixed = [*runs, run(replace(counted, budget=2.0, rounds=1)).folder]
    assert axis_of(learning_curves(mixed)).title == "labelled (% of all samples)"


def test_a_round_in_which_nobody_had_samples_left_counts(small, digits, tmp_path, capsys):
    few = {"train": slice(160), "test": slice(20)}  # 160 are 200 by the paper's rounding: two rounds take all
    images = {f"{k}_images": getattr(digits, f"{k}_inputs")[part, 0].numpy() for k, part in few.items()}
    labels = {f"{k}_labels": getattr(digits, f"{k}_labels")[part].numpy() for k, part in few.items()}
    np.savez(tmp_path / "few.npz", **images, **labels)
    few_images = small(
        dataset=str(tmp_path / "few.npz"), strategy="random", clients=2, budget=50, rounds=3, fl_rounds=1
    )
    result = run(few_images)
    curves = learning_curves([result.folder])
    assert curves["al_round"].tolist() == [1, 2, 3]
    assert curves["labelled"].tolist()[1:] == [100, 100]
    assert curves["accuracy"].to_numpy() == pytest.approx(100 * result.accuracy.to_numpy())
    print_accuracy(curves, "of [/some] path")
    assert "of [/some] path" in capsys.readouterr().out


def test_the_picture_names_every_strategy(tmp_path):
    rows = [
        (name, seed, r, 5.0 * r, 50 + 10 * r + shift + seed)
        for name, shift in (("logo", 2), ("random", 0))
        for seed in (1, 2)
        for r in (1, 2, 3)
    ]
    curves = pd.DataFrame(rows, columns=["strategy", "seed", "al_round", "labelled", "accuracy"])
    plot_learning_curves(curves, "title", tmp_path / "curves.SVG")
    text = (tmp_path / "curves.SVG").read_text()
    assert "logo  83.5" in text
    assert "random  81.5" in text
    plot_learning_curves(curves.drop(index=[3, 4, 5]), "title", tmp_path / "curves.svg")  # LoGo's seed 2
    text = (tmp_path / "curves.svg").read_text()
    assert "logo (seeds: 1)  83.0" in text
    assert "random (seeds: 2)  81.5" in text


def test_the_name_of_a_line_that_ends_early_is_at_its_height(tmp_path):
    ends = {"random": [50.0, 60.0, 70.0], "logo": [50.0, 90.0]}
    rows = [(name, 1, r, 5.0 * r, y) for name, line in ends.items() for r, y in enumerate(line, start=1)]
    curves = pd.DataFrame(rows, columns=["strategy", "seed", "al_round", "labelled", "accuracy"])
    plot_learning_curves(curves, "title", tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    height = {n: float(y) for y, n in re.findall(r'y="([\d.]+)"[^>]*>(logo|random)  ', text)}
    assert height["logo"] < height["random"]  # counted from above


def test_labels_never_overlap():
    moved = spread(np.array([90.0, 89.9, 89.8, 80.0]), gap=1.0, floor=70.0)
    assert (-np.diff(moved) >= 1.0 - 1e-9).all()
    assert moved[0] == 90.0
    assert moved[-1] == 80.0


def test_labels_stay_above_the_floor():
    assert spread(np.array([71.0, 70.9, 70.8]), gap=1.0, floor=70.0).tolist() == [72.0, 71.0, 70.0]


def test_a_name_far_above_the_others_stays_where_its_line_ends():
    moved = spread(np.array([90.0, 70.3, 70.2, 70.1]), gap=1.0, floor=70.0)
    assert moved.tolist() == [90.0, 72.0, 71.0, 70.0]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([4.87, 9.74, 14.6], ["5%", "10%", "15%"]),
        ([1.0, 2.0], ["1%", "2%"]),
        ([2.5, 5.0, 7.5], ["2.5%", "5.0%", "7.5%"]),
        ([0.7, 1.4], ["0.7%", "1.4%"]),
        ([0.13, 0.26], ["0.13%", "0.26%"]),
        ([5.0], ["5%"]),
        ([4.87, 90.13, 100.0, 100.0], ["5%", "90%", "100%", "100%"]),
    ],
)
def test_percents_have_the_digits_that_tell_them_apart(values, shown):
    assert percents(np.array(values)) == shown
