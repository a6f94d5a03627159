"""What a query costs: the paper's table measured here, and the kernels against their naive forms, in one run.

    python benchmarks/query_cost.py [--only kernels|table] [--clients 1] [--settings 5,40,75] [--trials 5]

The table is the paper's computational cost (CIFAR-10, 10 clients with 5,000 samples each, 250 labels per AL
round): seconds per client for scoring and selection and, apart, for training the local-only model. The naive
kernels are what published code does: an explicit gradient matrix, distances to the newest centre by
scikit-learn at every step, and scikit-learn's k-means. All variants take turns within each trial, so that a
noisy machine slows all of them alike.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import numpy.typing as npt
import scipy
import sklearn
import torch
import typer
from scipy import stats
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from fedactive.data.catalog import DATASETS
from fedactive.data.dataset import Dataset
from fedactive.data.loader import load
from fedactive.engines import choose_device, make_engine, usable_cores
from fedactive.engines.engine import Engine
from fedactive.errors import DataError
from fedactive.experiment import Experiment
from fedactive.federated.local_sgd import LocalJob, LocalResult, Recipe
from fedactive.federation import Query
from fedactive.laboratory.simulation import Simulation
from fedactive.laboratory.split import Split, split
from fedactive.models import ModelSpec
from fedactive.paper import paper_table
from fedactive.query import STRATEGIES, Outputs, make_strategy
from fedactive.query.kernels import gradient_seeding, k_centre, kmeans
from fedactive.record.environment import cpu_name
from query_round import CLASSES, EMBEDDING, synthetic_outputs

PAPER_CLIENTS, POOL, BUDGET = 10, 5000, 250
STRATEGIES_OF_THE_TABLE = ("entropy", "coreset", "badge", "gcnal", "alfamix", "logo")

Floats = npt.NDArray[np.float32]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- the paper's table


class TrainedOnce:
    """An engine that trains local-only models once for each number of labels, whoever asks for them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.results: dict[int, list[LocalResult]] = {}  # by labelled samples per client
        self.seconds: dict[int, float] = {}

    def train(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        labelled = len(jobs[0].samples)
        if labelled not in self.results:
            begun = time.perf_counter()
            self.results[labelled] = self.engine.train(jobs)
            self.seconds[labelled] = time.perf_counter() - begun
        return self.results[labelled]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def cifar10(data_dir: Path) -> tuple[Dataset, str]:
    """CIFAR-10 where its files are there, else noise of the same shape; and which of both it is."""
    try:
        return load("cifar10", data_dir), "CIFAR-10"
    except DataError:
        card, rng = DATASETS["cifar10"], torch.Generator().manual_seed(0)
        n = PAPER_CLIENTS * POOL
        images = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=rng)
        labels = torch.arange(n) % CLASSES
        noise = Dataset("cifar10", images, labels, images, labels, card.classes, card.mean, card.std)
        return (
            noise,
            f"random images and labels (no CIFAR-10 in {data_dir})",
        )


def measure(experiment: Experiment, dealt: Split, engine: TrainedOnce, labelled: int) -> dict[str, float]:
    """One query phase with that many random labels per client, and its seconds per client."""
    simulation = Simulation(experiment, dealt, cast(Engine, engine))
    for k, client in enumerate(simulation.members):
        order = torch.randperm(len(client.pool), generator=torch.Generator().manual_seed(k))
        simulation.label([Query(k, client.pool[order[:labelled]], torch.zeros(labelled))])
    weights = simulation.start_training(1, None).weights
    phase = simulation.query(2, weights)
    needs = make_strategy(experiment.strategy, experiment.selector, experiment.strategy_options).needs
    trained = engine.seconds[labelled] if "local" in needs else 0.0
    # Both together: on a GPU the one is still under way when the other begins.
    seconds = {"query": phase.seconds["scoring"] + phase.seconds["selection"], "training": trained}
    return {name: value / experiment.clients for name, value in seconds.items()}


def cost_table(settings: list[int], clients: int, data_dir: Path, device: str, epochs: int) -> None:
    data, source = cifar10(data_dir)
    data = dataclasses.replace(data, test_inputs=data.test_inputs[:64], test_labels=data.test_labels[:64])
    # The paper's split whatever `clients` is, of which the first ones are measured.
    whole = split(Experiment(dataset="cifar10", clients=PAPER_CLIENTS), data.train_labels, CLASSES)
    dealt = Split(whole.pools[:clients], whole.first[:clients], whole.budgets)
    paper = paper_table("query_cost_seconds").set_index(["labelled_percent", "strategy", "selector"])
    published = paper["seconds_per_client_rtx3090"].to_dict()
    place = choose_device(device)
    name = torch.cuda.get_device_name() if place.type == "cuda" else cpu_name()
    print(f"Seconds per client and query on {name}, {clients} of {PAPER_CLIENTS} clients, cnn4, {source};")
    print(
        f"the global model has initial weights, local-only training at most {epochs} epochs to 99%, measured"
    )
    print("once per row of labels and shown with all who need it. Beside it the paper's, on an RTX 3090.\n")
    print(f"{'labels':8} {'strategy':10} {'selector':9}    query training together    paper")

    def experiment(strategy: str, selector: str, epochs: int) -> Experiment:
        return Experiment(
            dataset="cifar10",
            clients=clients,
            strategy=strategy,
            selector=selector,
            local_only_epochs=epochs,
            device=device,
        )

    spec = ModelSpec("cnn4", data.input_shape, CLASSES)
    recipe = Recipe(precision=experiment("logo", "both", 1).precision)
    rows = [(s, selector) for s in STRATEGIES_OF_THE_TABLE for selector in STRATEGIES[s].selectors]
    with make_engine(spec, data, recipe, device, 0, clients) as engine:
        warm = TrainedOnce(engine)
        for strategy, selector in rows:  # whatever is compiled or loaded once is not the query's cost
            say(f"warming up: {strategy}, {selector} …")
            measure(experiment(strategy, selector, 1), dealt, warm, 64)
        for percent in settings:
            labels, trainer = f"{percent}->{percent + 5}", TrainedOnce(engine)
            for strategy, selector in rows:
                say(f"{labels}%: {strategy}, {selector} …")
                seconds = measure(
                    experiment(strategy, selector, epochs), dealt, trainer, POOL * percent // 100
                )
                theirs = published.get((labels, strategy, selector), float("nan"))
                numbers = (seconds["query"], seconds["training"], sum(seconds.values()), theirs)
                columns = " ".join(f"{number:8.2f}" for number in numbers)
                print(f"{labels:8} {strategy:10} {selector:9} {columns}", flush=True)


# --- the kernels


def naive_badge(z: Floats, q: Floats, count: int, seed: int) -> list[int]:
    gradients = (q[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    random = np.random.RandomState(seed)
    chosen = [int(np.argmax((gradients**2).sum(1)))]
    nearest = np.full(len(z), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, pairwise_distances(gradients, gradients[chosen[-1:]]).ravel())
        weights = nearest.astype(np.float64) ** 2
        weights[chosen] = 0
        drawn = stats.rv_discrete(values=(np.arange(len(z)), weights / weights.sum()))
        chosen.append(int(drawn.rvs(random_state=random)))
    return chosen


def naive_coreset(points: Floats, anchors: Floats, count: int) -> list[int]:
    nearest, chosen = pairwise_distances(points, anchors).min(1), []
    for _ in range(count):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, pairwise_distances(points, points[chosen[-1:]]).ravel())
    return chosen


def inertia(points: Tensor, cluster: npt.NDArray[np.int64]) -> float:
    x, of = points.double(), torch.from_numpy(cluster).long()
    size = torch.bincount(of, minlength=BUDGET).clamp_min(1)
    means = torch.zeros(BUDGET, x.shape[1], dtype=x.dtype).index_add_(0, of, x) / size[:, None]
    return float(((x - means[of]) ** 2).sum())


def take_turns(
    variants: Mapping[str, Callable[[int], object]], trials: int
) -> tuple[list[float], list[list[object]]]:
    """Median seconds of each variant, and its results."""
    seconds: list[list[float]] = [[] for _ in variants]
    results: list[list[object]] = [[] for _ in variants]
    for trial in range(trials):
        for i, (name, run) in enumerate(variants.items()):
            say(f"{name}, trial {trial + 1} of {trials} …")
            begun = time.perf_counter()
            results[i].append(run(trial))
            seconds[i].append(time.perf_counter() - begun)
    return [statistics.median(s) for s in seconds], results


def kernel_table(trials: int) -> None:
    n = POOL - BUDGET
    outputs = synthetic_outputs(POOL, 0)
    anchors = outputs.embeddings[n:]
    outputs = Outputs(outputs.logits[:n], outputs.embeddings[:n])
    z, q, g = outputs.embeddings, outputs.residual, outputs.hallucinated_gradient
    normal = torch.randn(n, EMBEDDING, generator=torch.Generator().manual_seed(1))

    def rng(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def theirs(points: Tensor) -> Callable[[int], object]:
        return lambda seed: (
            KMeans(BUDGET, n_init=10, init="k-means++", algorithm="lloyd", random_state=seed)
            .fit(points.numpy())
            .labels_
        )

    def ours(points: Tensor) -> Callable[[int], object]:
        return lambda seed: kmeans(points, BUDGET, rng(seed), restarts=10).numpy()

    pairs: dict[str, tuple[Callable[[int], object], Callable[[int], object], Tensor | None]] = {
        "BADGE seeding": (
            lambda seed: naive_badge(z.numpy(), q.numpy(), BUDGET, seed),
            lambda seed: gradient_seeding(z[None], q[None], BUDGET, rng(seed)),
            None,
        ),
        "k-centre (coreset)": (
            lambda seed: naive_coreset(z.numpy(), anchors.numpy(), BUDGET),
            lambda seed: k_centre(z, anchors, BUDGET, rng(seed)),
            None,
        ),
        "k-means, gradients": (theirs(g), ours(g), g),
        "k-means, normal": (theirs(normal), ours(normal), normal),
    }
    print(f"{cpu_name()}, {usable_cores()} cores, torch {torch.__version__}, numpy {np.__version__},")
    print(f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}")
    print(f"{n} points, embedding {EMBEDDING}, {CLASSES} classes, B = {BUDGET}; median of {trials} trials.")
    print(
        "k-means: 10 restarts against sklearn.cluster.KMeans; inertia is ours over theirs, mean of trials\n"
    )
    print(f"{'threads':>7}  {'kernel':20} {'naive, s':>9} {'here, s':>9} {'faster':>8} {'inertia':>8}")
    default = torch.get_num_threads()
    for threads in sorted({1, default}):
        torch.set_num_threads(threads)
        with threadpool_limits(threads):
            for name, (naive, kernel, points) in pairs.items():
                turns = {
                    f"{name}, naive, {threads} threads": naive,
                    f"{name}, here, {threads} threads": kernel,
                }
                (slow, fast), results = take_turns(turns, trials)
                quality = ""
                if points is not None:
                    a, b = (statistics.mean(inertia(points, np.asarray(r)) for r in runs) for runs in results)
                    quality = f"{b / a:8.4f}"
                print(
                    f"{threads:7}  {name:20} {slow:9.3f} {fast:9.3f} {slow / fast:7.1f}x {quality:>8}",
                    flush=True,
                )
    torch.set_num_threads(default)


def main(
    only: Annotated[str, typer.Option(help="`kernels` or `table`; both if empty")] = "",
    settings: Annotated[
        str, typer.Option(help="rows of the table: percent labelled before the query")
    ] = "5,40,75",
    clients: Annotated[int, typer.Option(help="clients measured, 1 to 10; 0 is 1 on a CPU, 10 on a GPU")] = 0,
    data_dir: Annotated[Path, typer.Option(help="folder of the datasets")] = Path("data"),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    epochs: Annotated[int, typer.Option(help="epochs of local-only training, at most")] = 50,
    trials: Annotated[int, typer.Option(help="measurements of each kernel")] = 5,
) -> None:
    if only not in ("", "kernels", "table"):
        raise typer.BadParameter("--only is kernels or table")
    if only != "kernels":
        count = clients or (1 if choose_device(device).type == "cpu" else PAPER_CLIENTS)
        cost_table([int(s) for s in settings.split(",")], count, data_dir, device, epochs)
        print()
    if only != "table":
        kernel_table(trials)


if __name__ == "__main__":
    typer.run(main)
