"""What the loop asks of a federation, in which order, and that a run that was killed goes on as if it had not."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from fedactive.federated import Server, Update
from fedactive.federation import Kept, Query, QueryPhase
from fedactive.loop import federated_active_learning
from fedactive.progress import Silent
from fedactive.record import run_folder
from fedactive.record.run_folder import Run
from support.evaluations import evaluation


def number(weights):
    return None if weights is None else round(weights["w"].item(), 3)  # the mean of three is not exact


class Toy:
    """Three clients whose model is one number: client k adds k + 1 to it in each FL round."""

    clients = 3

    def __init__(self, killed_at=None, able=(0, 1, 2)):
        self.asked, self.killed_at, self.able = [], killed_at, able
        self.labels, self.memory = [0, 0, 0], 0

    def ask(self, *question):
        if question[:3] == self.killed_at:
            raise KeyboardInterrupt
        self.asked.append(question)

    def query(self, al_round, weights, agreed=None):
        self.ask("query", al_round, number(weights))
        queries = [Query(k, torch.tensor([10 * al_round + k]), torch.ones(1)) for k in range(3)]
        return QueryPhase(queries, seconds={"selection": 1.0})

    def label(self, queries):
        self.ask("label", [query.samples.item() for query in queries])
        for query in queries:
            self.labels[query.client] += query.client in self.able
        return [query.samples % 10 for query in queries]

    def labelled(self):
        return self.labels

    def start_training(self, al_round, weights):
        self.ask("start", al_round, number(weights))
        self.memory = 0
        return Server(weights or {"w": torch.tensor(100.0 * al_round)})

    def train(self, server, al_round, fl_round, participants):
        self.ask("train", al_round, fl_round, number(server.weights), participants)
        self.memory += 1
        return [Update(1, {"w": server.weights["w"] + k + 1}) for k in participants]

    def evaluate(self, server, al_round, fl_round):
        measured = evaluation([number(server.weights) / 1000, 0.5]) if fl_round == 1 else None
        return server, measured

    def snapshot(self):
        return [Kept({"memory": {"n": torch.tensor(self.memory)}})] * 3

    def restore(self, server, snapshot):
        self.memory = snapshot[0].own["memory"]["n"].item()
        self.ask("restore", number(server.weights), self.memory)
        return server


class Notes(Silent):
    def __init__(self):
        self.told = []

    def on_query(self, al_round):
        self.told.append(al_round)

    def on_evaluation(self, al_round, fl_round, evaluation):
        self.told.append((al_round, fl_round, round(evaluation.accuracy, 4)))

    def on_round(self, al_round, labelled, accuracy):
        self.told.append((f"{labelled} labels", round(accuracy, 4)))


@pytest.fixture
def learn(small):
    """Run the loop on a toy federation; `small` keeps the runs in one folder."""

    def run(toy, progress=None, **settings):
        experiment = small(**{"rounds": 2, "fl_rounds": 2, "strategy": "random"} | settings)
        folder = Run(experiment, "toy")
        try:
            federated_active_learning(experiment, toy, folder, progress or Silent())
        finally:
            folder.close()
        return folder.folder

    return run


def test_a_round_is_a_query_labels_and_fl_rounds(learn):
    toy = Toy()
    folder = learn(toy)
    everyone = [0, 1, 2]
    assert toy.asked == [
        ("label", []),
        ("query", 1, None),
        ("label", [10, 11, 12]),
        ("start", 1, None),
        ("train", 1, 0, 100, everyone),
        ("train", 1, 1, 102, everyone),
        ("query", 2, 104),
        ("label", [20, 21, 22]),
        ("start", 2, None),
        ("train", 2, 0, 200, everyone),
        ("train", 2, 1, 202, everyone),
    ]
    assert (folder / "done.json").exists()
    selections = pd.read_parquet(folder / "selections.parquet")
    assert selections["sample"].tolist() == [10, 11, 12, 20, 21, 22]
    assert selections["label"].tolist() == [0, 1, 2] * 2


def test_only_what_was_measured_is_recorded_and_told(learn):
    notes = Notes()
    metrics = pd.read_parquet(learn(Toy(), notes) / "metrics.parquet")
    assert metrics[["al_round", "fl_round"]].to_numpy().tolist() == [[1, 2], [2, 2]]
    assert metrics["accuracy"].tolist() == pytest.approx([(0.104 + 0.5) / 2, (0.204 + 0.5) / 2])
    assert notes.told == [
        *(1, (1, 1, 0.302), ("3 labels", 0.302)),
        *(2, (2, 1, 0.352), ("6 labels", 0.352)),
    ]


def test_seconds_of_every_phase_are_recorded(learn):
    timings = pd.read_parquet(learn(Toy()) / "timings.parquet").set_index(["al_round", "phase"])["seconds"]
    phases = ("selection", "training", "evaluation")
    assert set(timings.index) == {(r, phase) for r in (1, 2) for phase in phases}
    assert timings[:, "selection"].tolist() == [1.0, 1.0]
    assert ((timings > 0) & (timings < 60)).all()


def test_continue_goes_on_from_the_last_weights(learn):
    toy = Toy()
    learn(toy, init="continue")
    assert [asked for asked in toy.asked if asked[0] == "start"] == [("start", 1, None), ("start", 2, 104)]


def test_clients_without_labels_do_not_train_and_without_any_the_model_stays(learn):
    one, nobody = Toy(able=(1,)), Toy(able=())
    learn(one)
    learn(nobody, seed=2)
    trained = [[asked[3:] for asked in toy.asked if asked[0] == "train"] for toy in (one, nobody)]
    assert trained[0] == [(100, [1]), (102, [1]), (200, [1]), (202, [1])]
    assert trained[1] == [(100, []), (100, []), (200, []), (200, [])]


@pytest.mark.parametrize(
    ("killed_at", "restored"),
    [
        (("train", 1, 0), ("restore", 100, 0)),
        (("train", 1, 1), ("restore", 102, 1)),
        (("query", 2, 104), ("restore", 104, 2)),
        (("start", 2, None), ("restore", 104, 2)),
        (("train", 2, 0), ("restore", 200, 0)),
        (("train", 2, 1), ("restore", 202, 1)),
    ],
)
def test_a_run_that_was_killed_goes_on_where_it_was(learn, monkeypatch, tmp_path, killed_at, restored):
    monkeypatch.setattr(run_folder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole, first, second = Toy(), Toy(killed_at), Toy()
    expected = learn(whole, runs_dir=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        learn(first)
    folder = learn(second)
    assert [asked[0] for asked in second.asked[:2]] == ["start", "label"]  # fresh weights, to compare with
    assert second.asked[2] == restored
    trained = [asked for toy in (first, second) for asked in toy.asked if asked[0] == "train"]
    assert trained == [asked for asked in whole.asked if asked[0] == "train"]
    for table in ("metrics", "selections"):
        pd.testing.assert_frame_equal(*(pd.read_parquet(f / f"{table}.parquet") for f in (folder, expected)))


def test_results_of_complete_rounds_are_there_while_the_run_goes_on(learn, small):
    with pytest.raises(KeyboardInterrupt):
        learn(Toy(("query", 3, 204)), rounds=3)
    (folder,) = [path for path in small().runs_dir.iterdir() if not path.name.startswith(".")]
    assert pd.read_parquet(folder / "selections.parquet")["al_round"].unique().tolist() == [1, 2]
    assert not (folder / "done.json").exists()
    resumed = Toy()
    learn(resumed, rounds=3)
    assert resumed.asked[2:4] == [("restore", 204, 2), ("query", 3, 204)]


def test_the_first_round_is_shared_with_other_strategies(learn, small):
    learn(Toy())
    experiment = small(rounds=2, fl_rounds=2, strategy="entropy")
    other, folder = Toy(), Run(experiment, "toy")
    federated_active_learning(experiment, other, folder, Silent())
    folder.close()
    assert other.asked[1:4] == [("label", [10, 11, 12]), ("restore", 104, 2), ("query", 2, 104)]
