"""Speed on the CPU, training and inference: this package's engines against plain PyTorch loops, in one run.

    python benchmarks/cpu_engine.py [--clients 10] [--samples 320] [--trials 5]

The baseline of training (plain_loop.py) is measured with and without loader processes, and the faster of the
two counts. That of inference has the images in memory as floats and takes 512 at a time. All variants run
cnn4 on 32x32x3 images, in turn within each trial, so that a noisy machine slows all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated

import torch
import typer
from torch import Tensor

from fedactive.data.dataset import Dataset
from fedactive.engines import Engine, usable_cores
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec
from fedactive.record.environment import cpu_name
from plain_loop import noise, plain_inference, plain_loop

SPEC = ModelSpec("cnn4", (3, 32, 32), 10)


def engine_loop(engine: Engine, data: Dataset, clients: list[Tensor]) -> Callable[[], None]:
    start = SPEC.initial_weights(torch.Generator().manual_seed(0))
    jobs = [
        LocalJob(start, samples, data.train_labels[samples], 1, (0.01,) * -(-len(samples) // 64), k)
        for k, samples in enumerate(clients)
    ]

    def run() -> None:
        engine.train(jobs)

    return run


def engine_inference(engine: Engine, data: Dataset) -> Callable[[], None]:
    weights = SPEC.initial_weights(torch.Generator().manual_seed(0))

    def run() -> None:
        engine.infer(weights, data.train_inputs)

    return run


def main(
    clients: Annotated[int, typer.Option(help="number of clients")] = 10,
    samples: Annotated[int, typer.Option(help="labelled samples per client")] = 320,
    trials: Annotated[int, typer.Option(help="measurements of each variant")] = 5,
) -> None:
    data = noise(clients * samples)
    held = list(torch.arange(clients * samples).split(samples))

    cores = usable_cores()
    with (
        SequentialEngine(SPEC, data, Recipe(), torch.device("cpu")) as sequential,
        ParallelEngine(SPEC, data, Recipe(), cores) as parallel,
        ParallelEngine(SPEC, data, Recipe(precision="bf16"), cores) as parallel_bf16,
    ):
        variants = {
            "plain loop, PIL DataLoader": plain_loop(data, held, 0),
            "plain loop, PIL DataLoader, 2 processes": plain_loop(data, held, 2),
            "sequential engine (one thread)": engine_loop(sequential, data, held),
            "parallel engine, fp32": engine_loop(parallel, data, held),
            "parallel engine, bf16": engine_loop(parallel_bf16, data, held),
            "inference, plain loop": plain_inference(data),
            "inference, engines, fp32": engine_inference(parallel, data),
            "inference, engines, bf16": engine_inference(parallel_bf16, data),
        }
        seconds: dict[str, list[float]] = {name: [] for name in variants}
        for trial in range(trials + 1):
            for name, run in variants.items():
                begun = time.perf_counter()
                run()
                if trial:  # the first round warms up
                    seconds[name].append(time.perf_counter() - begun)

    speed = {name: clients * samples / statistics.median(s) for name, s in seconds.items()}
    training = max(value for name, value in speed.items() if name.startswith("plain"))
    print(f"{cpu_name()}, {cores} cores, torch {torch.__version__}, {clients} clients x {samples} samples")
    print(f"cnn4, 32x32x3, batch 64; median of {trials} trials\n")
    print(f"{'':42}samples/s   against the faster plain loop")
    for name, value in speed.items():
        baseline = speed["inference, plain loop"] if name.startswith("inference") else training
        print(f"{name:42}{value:9,.0f}   {value / baseline:5.2f}x")


if __name__ == "__main__":
    typer.run(main)
