"""How much work a set of runs is, and about how long this machine needs for it.

Work is counted in images: those trained on, and those only seen, to test models and to score the pool. A
short trial with the real engine measures how fast this device does either.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from fedactive.data.budget import budget_until, budgets_per_client
from fedactive.data.catalog import DATASETS
from fedactive.data.dataset import Dataset
from fedactive.data.imbalance import long_tail_sizes
from fedactive.engines import EngineShelf, choose_device, usable_cores
from fedactive.experiment import Experiment
from fedactive.laboratory.inputs import load_inputs
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import Split
from fedactive.memory import MOST_CHECKPOINTS
from fedactive.pools import DISTILLATION_EPOCHS, DROPOUT_PASSES
from fedactive.query import make_strategy
from fedactive.record.run_folder import first_round_file
from fedactive.record.run_reader import read_run
from fedactive.record.tables import DamagedError

# Training and test images of some datasets: known without having the files.
COUNTS = {
    "cifar10": (50_000, 10_000),
    "svhn": (73_257, 26_032),
    "pathmnist": (89_996, 7_180),
    "organamnist": (34_561, 17_778),
    "dermamnist": (7_007, 2_005),
}
SAMPLES_PER_CLIENT, TEST_IMAGES = 128, 1024  # of the trial


class Samples(NamedTuple):
    """What clients see, as far as it decides how long training takes."""

    train: int
    test: int
    shape: tuple[int, ...]  # of one of them
    classes: int


FOUND: dict[tuple[object, ...], Samples] = {}  # by what decides them


def samples_of(experiment: Experiment) -> Samples:
    """Return how many samples an experiment has, and their shape; reads data that are not known by name."""
    e = experiment
    if e.inputs not in FOUND:
        if e.dataset in COUNTS and not e.backbone:
            card, side = DATASETS[e.dataset], e.image_size or DATASETS[e.dataset].size
            FOUND[e.inputs] = Samples(*COUNTS[e.dataset], (card.channels, side, side), len(card.classes))
        else:
            data = load_inputs(e)
            counts = len(data.train_inputs), len(data.test_inputs)
            FOUND[e.inputs] = Samples(*counts, data.input_shape, len(data.classes))
    return FOUND[e.inputs]


class Work(NamedTuple):
    """Images trained on and images seen; also images per second, or seconds, of each."""

    trained: float
    seen: float

    def plus(self, other: Work) -> Work:
        return Work(self.trained + other.trained, self.seen + other.seen)


def round_work(experiment: Experiment, al_round: int) -> Work:
    """Count the work of one AL round: the query that begins it, then its FL rounds.

    Models that a query trains count with all their epochs, though training may end before.
    """
    e = experiment
    N, test, _, classes = samples_of(e)
    if e.rho > 1:
        N = int(long_tail_sizes(np.full(classes, N // classes), e.rho).sum())
    budgets = budgets_per_client(N, e.clients, e.budget)
    before, labelled = (min(e.clients * budget_until(budgets, r), N) for r in (al_round - 1, al_round))

    trained = e.fl_rounds * e.local_epochs * e.participation * labelled
    seen = float(sum(map(e.evaluates, range(e.fl_rounds))) * test)
    if al_round > 1:
        models = make_strategy(e.strategy, e.selector, e.strategy_options).needs
        trained += sum(epochs_of(model, e) for model in models) * before
        seen += sum(passes_of(model, e) for model in models) * (N - before)
        seen += ("local" in models) * e.clients * test
    return Work(trained, seen)


def epochs_of(model: str, experiment: Experiment) -> int:
    """Return for how many epochs a query trains a model that its strategy asks for."""
    alone = experiment.local_only_epochs
    return {"local": alone, "finetuned": alone, "distilled": DISTILLATION_EPOCHS}.get(model, 0)


def passes_of(model: str, experiment: Experiment) -> int:
    """Return how many models a query runs over the pool for this one: a committee is many."""
    checkpoints = 2 * min(MOST_CHECKPOINTS, (experiment.fl_rounds + 1) // 2)
    several = {"committee": checkpoints, "epochs": experiment.local_epochs, "dropout": DROPOUT_PASSES}
    return several.get(model, 1)


def remaining_work(experiments: Iterable[Experiment]) -> dict[tuple[object, ...], Work]:
    """Count what is left to do, by kind of training; a first AL round that strategies share counts once."""
    shared = set()
    total: dict[tuple[object, ...], Work] = {}
    for e in experiments:
        try:
            done = read_run(e.folder).rounds
        except DamagedError:
            done = 0  # there is no run yet, or none that can be read
        first = first_round_file(e)
        if done == 0 and (first in shared or first.exists()):
            done = 1
        shared.add(first)
        for al_round in range(done + 1, e.rounds + 1):
            total[kind(e)] = total.get(kind(e), Work(0, 0)).plus(round_work(e, al_round))
    return total


def kind(experiment: Experiment) -> tuple[object, ...]:
    """Return what decides how fast an experiment trains, image by image."""
    e = experiment
    training = (e.model, e.model_options, e.algorithm, e.objective, e.batch_size, e.augment, e.precision)
    return (samples_of(e).shape, *training, e.device)


def measure_speed(experiment: Experiment, seconds: float) -> Work:
    """Measure images per second, in FL rounds on noise of the right shape for about that many seconds."""
    _, _, shape, classes = samples_of(experiment)
    gpu = choose_device(experiment.device).type == "cuda"
    K = experiment.clients if gpu else min(experiment.clients, usable_cores())  # that train side by side
    e = replace(experiment, clients=K, local_epochs=1, evaluate_every=1)
    rng = torch.Generator().manual_seed(0)

    def make_noise(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = torch.randint(256, (count, *shape), dtype=torch.uint8, generator=rng)
        features = len(shape) == 1
        labels = torch.randint(classes, (count,), generator=rng)
        return inputs.float() / 256 if features else inputs, labels

    N = K * SAMPLES_PER_CLIENT  # are labelled, as many are not: some objectives use those, too
    train, test = make_noise(2 * N), make_noise(TEST_IMAGES)
    normal = (0.5,) * shape[0] if len(shape) == 3 else ()
    noise = Dataset(e.dataset, *train, *test, tuple(map(str, range(classes))), normal, normal)
    pools = np.split(np.arange(2 * N), K)
    with EngineShelf() as engines:
        first = [pool[:SAMPLES_PER_CLIENT] for pool in pools]
        federation = Simulation(e, Split(pools, first, (SAMPLES_PER_CLIENT,)), engines.get(e, noise))
        federation.label(federation.query(1, None).queries)
        server = federation.start_training(1, None)

        def fl_round() -> Work:
            begun = time.perf_counter()
            federation.train(server, 1, 0, range(K))
            trained = time.perf_counter()
            federation.evaluate(server, 1, 0)
            return Work(trained - begun, time.perf_counter() - trained)

        fl_round()  # warms up: workers start, kernels are chosen
        spent, rounds = fl_round(), 1
        while sum(spent) < seconds:
            spent, rounds = spent.plus(fl_round()), rounds + 1
    return Work(N * rounds / spent.trained, TEST_IMAGES * rounds / spent.seen)


@dataclass(frozen=True)
class Estimate:
    runs: int
    done: int  # how many of them are complete
    trained: float  # images
    seconds: float
    where: str

    def __str__(self) -> str:
        count = "1 run" if self.runs == 1 else f"{self.runs} runs"
        if self.runs == self.done:
            return f"{count}, all done before"
        return (
            f"{count}, {self.done} done before; the rest trains on about {round_count(self.trained)} images, "
            f"about {round_duration(self.seconds)} on this machine ({self.where}), judging by a short trial"
        )


def estimate(
    wanted: Sequence[Experiment], left: Sequence[Experiment], seconds: float = 2.0, gpus: int = 0
) -> Estimate:
    """Estimate how long the runs that are `left` take, after a short trial of each kind of training.

    The time is that of training, testing and scoring; the time that strategies need to select is not in it.
    """
    kinds = {kind(e): e for e in left}
    trained = needed = 0.0
    for name, work in remaining_work(left).items():
        fast = measure_speed(kinds[name], seconds)
        trained += work.trained
        needed += work.trained / fast.trained + work.seen / fast.seen
    where = f"{usable_cores()} CPU cores"
    if gpus:
        where, needed = "one GPU" if gpus == 1 else f"{gpus} GPUs", needed / gpus
    return Estimate(len(wanted), len(wanted) - len(left), trained, needed, where)


def round_count(count: float) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.1f} {name}"
    return f"{count:,.0f}"


def round_duration(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
