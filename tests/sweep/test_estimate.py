from dataclasses import replace

import pytest
import torch

from fedactive.laboratory.simulation import Simulation
from fedactive.paper.reproduce import experiments
from fedactive.record.archive import remaining
from fedactive.record.run_folder import first_round_file
from fedactive.sweep import estimate as module
from fedactive.sweep.estimate import (
    Estimate,
    Work,
    estimate,
    measure_speed,
    remaining_work,
    round_duration,
    round_work,
)


@pytest.fixture
def two(runs):
    """Random and Entropy (local) on CIFAR-10, one seed, to 10%."""
    made = experiments("accuracy", until=10, seeds=[1], datasets=["cifar10"], runs_dir=runs, device="cpu")
    return [e for e in made if (e.strategy, e.selector) in (("random", "none"), ("entropy", "local"))]


def test_work_is_counted_by_hand(two):
    random, entropy = two
    assert round_work(random, 1) == (100 * 5 * 2500, 100 * 10_000)
    assert round_work(random, 2) == (100 * 5 * 5000, 100 * 10_000)
    # Ten local-only models for 50 epochs on the 2,500 labels before, the rest of the pool, ten more tests.
    assert round_work(entropy, 2) == (100 * 5 * 5000 + 50 * 2500, 100 * 10_000 + 47_500 + 10 * 10_000)
    thinned = replace(random, rho=5, budget=10)
    assert round_work(thinned, 1).trained == 100 * 5 * 10 * 254  # 10% of 25,400


@pytest.mark.parametrize(
    ("strategy", "trained", "passes"),
    [
        ("ifal", 500, 3),  # the global model, the client's last and the distilled one, which is trained
        ("tmfal", 0, 1 + 2 * 20),  # beside the global model twenty checkpoints of two models
        ("chase", 0, 5),  # one model for each local epoch
        ("fairfal", 50, 2),
    ],
)
def test_the_work_of_newer_queries_is_counted(two, strategy, trained, passes):
    random = two[0]
    asked = replace(random, strategy=strategy, selector="auto")
    test = 10 * 10_000 if strategy == "fairfal" else 0  # of the local-only models
    query = Work(trained * 2500, passes * 47_500 + test)
    assert round_work(asked, 2) == round_work(random, 2).plus(query)


def test_the_trial_mixes_images_where_the_objective_does(two, monkeypatch):
    pools = []

    class Watched(Simulation):
        def train(self, server, al_round, fl_round, participants):
            pools.extend(len(client.unlabelled) for client in self.members)
            return super().train(server, al_round, fl_round, participants)

    monkeypatch.setattr(module, "Simulation", Watched)
    monkeypatch.setattr(module, "SAMPLES_PER_CLIENT", 8)
    monkeypatch.setattr(module, "TEST_IMAGES", 8)
    measure_speed(replace(two[0], workers=1, objective="kcfu"), seconds=0.0)
    assert set(pools) == {8}


def test_the_first_round_counts_once(two):
    (total,) = remaining_work(two).values()
    assert total.trained == 500 * 2500 + 2 * 500 * 5000 + 50 * 2500
    first_round_file(two[0]).parent.mkdir(parents=True)
    first_round_file(two[0]).touch()
    (total,) = remaining_work(two).values()
    assert total.trained == 2 * 500 * 5000 + 50 * 2500


def test_what_is_done_is_not_counted(two, store):
    store(two[0], [0.5, 0.6])
    store(two[1], [0.5])
    (total,) = remaining_work([two[1]]).values()
    assert total.trained == 500 * 5000 + 50 * 2500


def test_an_estimate_after_real_training_on_this_machine(two, store):
    store(two[0], [0.5, 0.6])
    wanted = [replace(e, workers=1, evaluate_every=50) for e in two]
    made = estimate(wanted, remaining(wanted), seconds=0.1)
    assert (made.runs, made.done) == (2, 1)
    assert made.seconds > 1
    assert str(made).startswith("2 runs, 1 done before; the rest trains on about 3.9 million images, about ")
    assert made.where.endswith("CPU cores")
    assert estimate(wanted, remaining(wanted), seconds=0.1, gpus=2).where == "2 GPUs"
    store(two[1], [0.5, 0.6])
    assert str(estimate(two, remaining(two))) == "2 runs, all done before"


@pytest.mark.parametrize(("device", "clients"), [("cpu", 2), ("cuda", 10)])
def test_the_trial_has_as_many_clients_as_train_side_by_side(two, monkeypatch, device, clients):
    """On a GPU these are all, however few cores are beside it."""
    trained = []

    class Counted(Simulation):
        def train(self, server, al_round, fl_round, participants):
            trained.append(len(participants))
            return super().train(server, al_round, fl_round, participants)

    monkeypatch.setattr(module, "Simulation", Counted)
    monkeypatch.setattr(module, "SAMPLES_PER_CLIENT", 8)
    monkeypatch.setattr(module, "TEST_IMAGES", 8)
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    monkeypatch.setattr(module, "choose_device", lambda _: torch.device(device))
    measure_speed(replace(two[0], workers=1), seconds=0.0)
    assert set(trained) == {clients}


def test_time_in_words():
    assert [round_duration(s) for s in (5, 119, 120, 7300, 260_000)] == [
        "5 seconds", "119 seconds", "2 minutes", "2 hours", "3 days",
    ]  # fmt: skip
    assert "96 runs, 0 done before; the rest trains on about 2.0 billion" in str(
        Estimate(96, 0, 2.0e9, 1e5, "one GPU")
    )
    assert Work(1, 2).plus(Work(3, 4)) == (4, 6)


def test_data_that_are_not_known_by_name_are_read(small):
    """Digits have 1,438 training and 359 test images; 5% are 23 labels of each client."""
    experiment = small(rounds=1, budget=5, clients=3, model="mlp")
    trained, seen = round_work(experiment, 1)
    assert (trained, seen) == (3 * 69, 3 * 359)
    assert measure_speed(experiment, seconds=0.0).trained > 0
