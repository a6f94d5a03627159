"""The loop on the real thing: small experiments on digits, end to end."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from fedactive.laboratory.run import run
from fedactive.loop import choose_participants
from fedactive.progress import Silent
from fedactive.query import STRATEGIES


def test_every_round_labels_the_budget_without_repeats_and_only_from_the_own_pool(small):
    experiment = small(strategy="logo", clients=4, rounds=4)
    result = run(experiment)
    selections, clients = result.selections, pd.read_parquet(result.folder / "clients.parquet")
    assert (selections.groupby(["al_round", "client"]).size() == 17).all()  # 5% of 1,400 over 4
    assert not selections["sample"].duplicated().any()
    owner = clients.set_index("sample")["client"]
    assert (owner.loc[selections["sample"]].to_numpy() == selections["client"].to_numpy()).all()


def test_a_budget_that_grows(small):
    experiment = small(strategy="margin", first="typiclust", budget="3+2+5/client", rounds=4, fl_rounds=1)
    result = run(experiment)
    sizes = result.selections.groupby(["al_round", "client"]).size()
    assert sizes.tolist() == [n for n in (3, 2, 5, 5) for _ in range(experiment.clients)]
    shorter = run(replace(experiment, rounds=2, runs_dir=experiment.runs_dir / "other"))
    grown = run(replace(experiment, runs_dir=experiment.runs_dir / "other"))
    assert grown.folder == shorter.folder  # it went on
    assert grown.accuracy.equals(result.accuracy)


def test_metrics_are_tidy_and_complete(small, digits):
    result = run(small(strategy="entropy", selector="local", rounds=3, fl_rounds=2))
    metrics = result.metrics
    overall = metrics[metrics["model"] == "global"]
    assert overall[["al_round", "fl_round"]].to_numpy().tolist() == [
        [r, t] for r in (1, 2, 3) for t in (1, 2)
    ]
    assert overall["labelled"].tolist() == [69, 69, 138, 138, 207, 207]
    # Local-only models are trained for the query of rounds 2 and 3, on the labels of the rounds before.
    local = metrics[metrics["model"] == "local"]
    assert local[["al_round", "client"]].to_numpy().tolist() == [[r, k] for r in (1, 2) for k in range(3)]
    sizes = torch.bincount(digits.test_labels, minlength=10)
    for row in metrics.itertuples():
        assert len(row.class_accuracy) == 10
        assert (torch.tensor(row.class_accuracy) * sizes).sum() / sizes.sum() == pytest.approx(row.accuracy)
    assert result.accuracy.loc[3] == pytest.approx(overall[overall["al_round"] == 3]["accuracy"].mean())


def test_fl_rounds_are_evaluated_so_often_and_the_last_five_always(small, tmp_path):
    every, some = (
        run(small(rounds=1, fl_rounds=12, evaluate_every=n, runs_dir=tmp_path / str(n))).metrics
        for n in (1, 3)
    )
    rows = [table[table["model"] == "global"].set_index("fl_round") for table in (every, some)]
    assert list(rows[1].index) == [3, 6, 8, 9, 10, 11, 12]
    pd.testing.assert_frame_equal(rows[0].loc[rows[1].index], rows[1])


def test_it_learns(small):
    result = run(small(model="cnn4", strategy="random", alpha=10, rounds=3, fl_rounds=8, local_epochs=5))
    assert result.accuracy.loc[1] > 0.6
    assert result.accuracy.loc[3] > result.accuracy.loc[1]


def test_strategies_share_round_one_exactly_and_then_differ(small, tmp_path):
    results = [run(small(strategy=s, runs_dir=tmp_path / s)) for s in ("random", "entropy", "logo")]
    first = [r.metrics.query("al_round == 1 and model == 'global'")["accuracy"].tolist() for r in results]
    assert first[0] == first[1] == first[2]
    labelled = [set(r.selections.query("al_round == 1")["sample"]) for r in results]
    assert labelled[0] == labelled[1] == labelled[2]
    later = [set(r.selections.query("al_round == 2")["sample"]) for r in results]
    assert len(set(map(frozenset, later))) == 3


def test_the_engine_does_not_change_the_result(small, tmp_path):
    one = run(small(strategy="logo", workers=1, runs_dir=tmp_path / "one"))
    two = run(small(strategy="logo", workers=2, runs_dir=tmp_path / "two"))
    pd.testing.assert_frame_equal(one.metrics, two.metrics)
    pd.testing.assert_frame_equal(one.selections, two.selections)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "scaffold"])
def test_algorithms_learn_with_unequal_pools_and_partial_participation(small, algorithm):
    # 1,438 samples over 7 clients: pools of 206 and 205; half of the clients in each FL round.
    experiment = small(
        model="cnn4",
        algorithm=algorithm,
        clients=7,
        participation=0.5,
        alpha=1,
        fl_rounds=12,
        local_epochs=3,
        rounds=1,
    )
    assert run(experiment).accuracy.iloc[-1] > 0.45


def test_continue_starts_from_the_last_rounds_weights_and_random_does_not(small):
    def first_accuracy_of_round_two(init):
        metrics = run(small(model="cnn4", init=init, fl_rounds=10, local_epochs=3, rounds=2)).metrics
        return metrics.query("al_round == 2 and fl_round == 1 and model == 'global'")["accuracy"].item()

    assert first_accuracy_of_round_two("continue") > first_accuracy_of_round_two("random") + 0.2


def test_the_last_round_takes_what_is_left(small):
    result = run(small(strategy="entropy", budget=40, rounds=3, fl_rounds=1))
    assert result.selections.groupby("al_round").size().tolist() == [558, 558, 322]  # all 1,438 samples


def test_bf16_learns_too(small):
    result = run(small(model="cnn4", precision="bf16", alpha=10, rounds=1, fl_rounds=8, local_epochs=5))
    assert result.accuracy.loc[1] > 0.6


def test_participants_are_a_random_share_of_those_with_labels():
    def draw(seed):
        return choose_participants([5, 0, 5, 5, 5], 0.5, torch.Generator().manual_seed(seed))

    draws = [draw(seed) for seed in range(50)]
    assert all(len(d) == 2 and d == sorted(d) and 1 not in d for d in draws)
    assert {k for d in draws for k in d} == {0, 2, 3, 4}


@pytest.mark.parametrize(
    ("able", "share", "expected"),
    [
        (4, 0.5, 2),
        (3, 0.5, 2),  # 1.5 and 2.5 both go to the even number
        (5, 0.5, 2),
        (9, 0.3, 3),  # 2.7: rounded down, it would be 2
        (9, 0.25, 2),  # 2.25: rounded up, it would be 3
        (10, 0.99, 10),
        (10, 0.001, 1),  # never none
        (10, 1.0, 10),
        (0, 0.5, 0),
    ],
)
def test_the_number_of_participants_is_rounded_to_the_nearest(able, share, expected):
    chosen = choose_participants([0, *[3] * able, 0], share, torch.Generator().manual_seed(1))
    assert len(chosen) == len(set(chosen)) == expected


def test_progress_is_told_of_every_fl_round(small):
    class Counter(Silent):
        def __init__(self):
            self.trained_rounds = []

        def on_evaluation(self, al_round, fl_round, accuracy):
            self.trained_rounds.append((al_round, fl_round))

    counter = Counter()
    run(small(rounds=2, fl_rounds=2), counter)
    assert counter.trained_rounds == [(1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"random", "entropy", "logo"}))
def test_every_strategy_runs_end_to_end(small, strategy):
    result = run(small(strategy=strategy, rounds=2, fl_rounds=1))
    assert result.selections.groupby(["al_round", "client"]).size().tolist() == [23] * 6
    assert not result.selections["sample"].duplicated().any()


def test_the_finetuned_model_starts_from_the_global_one(small):
    """With no step of training allowed to matter, fine-tuned means global, and so does the choice."""
    frozen = {"rounds": 2, "local_only_epochs": 1, "local_only_stop": 0.0, "lr": 1e-8}
    finetuned = run(small(strategy="finetune", **frozen)).selections
    by_global = run(small(strategy="entropy", selector="global", **frozen)).selections
    by_local = run(small(strategy="entropy", selector="local", **frozen)).selections
    chosen = [set(s[s["al_round"] == 2]["sample"]) for s in (finetuned, by_global, by_local)]
    assert len(chosen[0] & chosen[1]) > len(chosen[0] & chosen[2])
