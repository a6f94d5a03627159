from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedactive.errors import ConfigurationError
from fedactive.laboratory.split import split
from fedactive.paper import TABLES
from fedactive.paper.reproduce import experiments, show
from fedactive.record.archive import remaining
from support.run_folders import runs_of

COUNTS = {
    "accuracy": 192,
    "ensembles": 56,
    "algorithms": 84,
    "emd": 96,
    "observation": 96,
    "penalty": 912,
    "cost": 44,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_runs_of_a_table(name):
    made = experiments(name)
    assert len(made) == len({e.name for e in made}) == COUNTS[name]
    assert {e.seed for e in made} == ({1, 2, 3} if name == "algorithms" else {1, 2, 3, 4} if made else set())


def test_runs_go_as_far_as_the_table_does():
    assert Counter((e.dataset, e.rounds) for e in experiments("accuracy", seeds=[1])) == {
        ("cifar10", 16): 12, ("svhn", 10): 12, ("pathmnist", 10): 12, ("dermamnist", 10): 12,
    }  # fmt: skip
    assert {e.rounds for e in experiments("emd")} == {5}
    assert {e.budget for e in experiments("emd")} == {10.0}


def test_runs_can_be_scaled_down(tmp_path):
    made = experiments(
        "ensembles", until=20, seeds=[1, 2], datasets=["svhn"], fl_rounds=10, runs_dir=tmp_path
    )
    assert len(made) == 14
    assert {(e.dataset, e.rounds, e.fl_rounds, e.runs_dir, e.device) for e in made} == {
        ("svhn", 4, 10, tmp_path, "auto")
    }
    assert {e.rounds for e in experiments("penalty", until=20, datasets=["cifar10"])} == {1, 4, 20}


def test_some_alphas_and_rhos_of_a_grid():
    made = experiments("observation", seeds=[1], alphas=[0.1, float("inf")], rhos=[1, 20])
    assert Counter((e.rho, e.alpha) for e in made) == {
        (1, 0.1): 2, (1, float("inf")): 2, (20, 0.1): 2, (20, float("inf")): 2,
    }  # fmt: skip
    assert len(experiments("emd", rhos=[5])) == 96 / 4
    settings = experiments("penalty", seeds=[1], alphas=[1])
    assert {(e.dataset, e.alpha) for e in settings} == {("cifar10", 1), ("svhn", 1)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("acuracy", {}), "did you mean 'accuracy'"),
        (("ensembles", {"datasets": ["cifar"]}), "did you mean 'cifar10'"),
        (("penalty", {"datasets": ["mnist"]}), "dataset: 'mnist' was given"),
        (("accuracy", {"until": 3}), "at least one budget, 5%"),
        (("emd", {"alphas": [0.1, 0.5]}), "alphas: 0.5 was given, allowed is 0.1 or 1 or inf here"),
        (("penalty", {"rhos": [20]}), "rhos: 20 was given, allowed is 1 here"),
    ],
)
def test_what_is_not_in_the_paper_is_told(arguments, message):
    name, options = arguments
    with pytest.raises(ConfigurationError, match=message):
        experiments(name, **options)


def test_a_table_has_no_numbers_before_its_first():
    with pytest.raises(ConfigurationError, match="until: 10 was given, allowed is at least 20"):
        show("accuracy", [], until=10)


def logo(seed, rounds, runs, **more):
    made = experiments("accuracy", seeds=[seed], datasets=["cifar10"], runs_dir=runs, **more)
    return replace(next(e for e in made if e.strategy == "logo"), rounds=rounds)


def rows(table, **values):
    for column, value in values.items():
        table = table[table[column] == value]
    return table.reset_index(drop=True)


def test_our_numbers_stand_beside_the_paper_s(store, runs):
    # At 20% labelled: 65, 66, 67, 68: mean 66.5, s = 1.29099, t(0.975, 3) = 3.18245, half width 2.05426.
    for seed, at_20 in zip((1, 2, 3, 4), (0.65, 0.66, 0.67, 0.68), strict=True):
        store(logo(seed, 4, runs), [0.3, 0.4, 0.5, at_20])
    table = show("accuracy", runs_of(runs))
    assert len(table) == 192
    first, second, *_ = rows(table, dataset="cifar10", strategy="logo").to_dict("records")
    assert (first["labelled_percent"], first["paper"], first["seeds"], first["note"]) == (20, 66.5, 4, "")
    assert first["ours"] == pytest.approx(66.5)
    assert first["std"] == pytest.approx(1.290994)
    assert first["difference"] == pytest.approx(0)
    assert (first["low"], first["high"]) == pytest.approx((66.5 - 2.05426, 66.5 + 2.05426), abs=1e-4)
    assert first["inside"] is True
    assert (second["labelled_percent"], second["seeds"], second["note"]) == (40, 0, "no runs")
    assert np.isnan(second["ours"])
    assert pd.isna(second["inside"])
    assert (rows(table, strategy="random")["seeds"] == 0).all()


def test_the_paper_s_number_can_lie_outside_and_one_seed_says_nothing(store, runs):
    for seed in (1, 2):
        store(logo(seed, 4, runs), [0.3, 0.4, 0.5, 0.7 + seed / 1000])
    outside = rows(show("accuracy", runs_of(runs), until=20), dataset="cifar10", strategy="logo")
    assert len(outside) == 1
    assert not outside["inside"][0]
    alone = rows(show("accuracy", runs_of(runs)[:1]), dataset="cifar10", strategy="logo").loc[0]
    assert (alone["seeds"], alone["note"]) == (1, "one seed, no interval")
    assert alone["ours"] == pytest.approx(70.1)
    assert alone[["std", "low", "high"]].isna().all()
    assert pd.isna(alone["inside"])


def test_a_run_counts_as_far_as_it_has_got_and_the_longer_of_two(store, runs):
    store(logo(1, 16, runs), [0.6] * 9)  # stopped at 45%
    store(logo(2, 4, runs), [0.62] * 4)
    store(logo(2, 8, runs), [0.62] * 8)
    store(logo(3, 8, runs), [])  # its first round is going on
    table = rows(show("accuracy", runs_of(runs), datasets=["cifar10"]), strategy="logo")
    assert table["seeds"].tolist() == [2, 2, 0, 0]
    assert table["ours"][:2].tolist() == pytest.approx([61, 61])


def test_runs_with_other_settings_are_shown_only_when_asked_for(store, runs):
    store(logo(1, 4, runs, fl_rounds=20), [0.6] * 4)
    assert show("accuracy", runs_of(runs))["seeds"].sum() == 0
    assert show("accuracy", runs_of(runs), fl_rounds=20)["seeds"].sum() == 1
    assert show("ensembles", runs_of(runs), fl_rounds=20)["seeds"].sum() == 1  # LoGo is in both tables


def test_what_a_longer_run_passes_need_not_be_run_again(store, runs):
    wanted = [logo(seed, 4, runs) for seed in (1, 2, 3)]
    store(logo(1, 16, runs), [0.6] * 5)  # has passed 20% on its way to 80%
    store(wanted[1], [0.6] * 3)
    assert [e.seed for e in remaining(wanted)] == [2, 3]


def test_emd_is_that_of_all_labels_so_far(store, runs):
    made = experiments("emd", seeds=[1], runs_dir=runs)
    run = next(e for e in made if (e.rho, e.alpha, e.selector) == (5, 1, "local"))
    # Client 0: class 0 only, then half of it class 1. Client 1: class 1, then both.
    store(run, [0.5, 0.6], labels=[[[0, 0], [1, 1]], [[1, 1], [0, 1]]])
    table = rows(show("emd", runs_of(runs)), rho=5, alpha=1.0, selector="local")
    ours = table.pivot_table(index="labelled_percent", columns="measure", values="ours")
    assert ours.loc[10, "local_emd"] == pytest.approx(0.9)  # one class of ten: 1 - 1/10
    assert ours.loc[10, "global_emd"] == pytest.approx(0.8)  # two classes alike
    assert ours.loc[20, "local_emd"] == pytest.approx((0.8 + 0.5 * (0.15 + 0.65 + 0.8)) / 2)
    assert ours.loc[20, "global_emd"] == pytest.approx(0.5 * (3 / 8 - 0.1 + 5 / 8 - 0.1 + 0.8))
    assert (table["seeds"] > 0).sum() == 4


def test_the_first_labels_of_the_paper_s_clients_have_the_paper_s_emd(store, runs):
    file = Path(__file__).parent.parent / "data" / "cifar10_train_labels.npz"
    with np.load(file) as archive:
        labels = torch.from_numpy(archive[archive.files[0]]).long()
    made = experiments("emd", seeds=[2], runs_dir=runs)
    run = next(e for e in made if (e.rho, e.alpha, e.selector) == (5, 0.1, "global"))
    store(run, [0.5], labels=[[labels[first].tolist() for first in split(run, labels, 10).first]])
    table = show("emd", runs_of(runs))
    assert table[table["seeds"] > 0]["paper"].tolist() == [0.662, 0.211]
    assert table[table["seeds"] > 0]["ours"].round(3).tolist() == [0.662, 0.211]


def test_cost_is_read_from_the_accuracy_runs(store, runs):
    store(logo(1, 2, runs), [0.5, 0.6])
    table = rows(show("cost", runs_of(runs)), strategy="logo")
    assert table["labelled_percent"].tolist() == ["5->10", "40->45", "75->80"]
    assert table["ours"][0] == pytest.approx(0.4)  # 2 + 1 + 1 seconds, ten clients
    assert table["seeds"].tolist() == [1, 0, 0]


def test_runs_come_seed_by_seed_and_strategies_can_be_left_out():
    wanted = experiments("accuracy", datasets=["cifar10"], strategies=["random", "logo"], seeds=[1, 2])
    assert [(e.strategy, e.seed) for e in wanted] == [("random", 1), ("logo", 1), ("random", 2), ("logo", 2)]
    with pytest.raises(ConfigurationError, match="'lego' was given"):
        experiments("accuracy", strategies=["lego"])
