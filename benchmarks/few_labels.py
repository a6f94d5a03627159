"""Few labels on features: how long do clients take to choose, and how long is a whole run?

    python benchmarks/few_labels.py [--device cuda] [--budgets 10,50,250] [--fl-rounds 20] [--threads 2]

Ten clients with 5,000 samples of 1,280 features each, as an image model gives for CIFAR-10. The samples are
made up (clusters that vary in 40 directions, and noise in all): time is measured here, no accuracy. Promised
on two cores: a choice for all ten clients in 10 s, a run of five AL rounds in 15 s, in which the last five FL
rounds of each are evaluated, and which begins with reading the file; on a GPU 1 s and 5 s, once everything
has been used before. Seconds on the clock are followed by those of the processor: on a machine with other
work the former say little. The result goes to results/few_labels.txt, or few_labels-gpu.txt, too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from fedactive import Experiment, run
from fedactive.progress import Silent
from fedactive.query import Outputs, Pool, make_strategy
from fedactive.record.environment import cpu_name

CLIENTS, POOL, WIDTH, CLASSES = 10, 5_000, 1_280, 10
PROMISED = {"cpu": (10.0, 15.0), "cuda": (1.0, 5.0)}  # seconds of a choice, of a run
STRATEGIES_OF_A_CHOICE = ("typiclust", "probcover", "maxherding", "medoids", "fedtypiclust", "auto", "logo")
RUNS = (("typiclust", "fedavg"), ("logo", "fedavg"), ("typiclust", "ridge"), ("logo", "ridge"))
RESULTS = Path(__file__).parent / "results"


def made_up(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features of clusters, not negative, and their classes; several clusters are of one class."""
    rng, shared = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(0)
    centres, mixing = torch.randn(60, 40, generator=shared), torch.randn(40, WIDTH, generator=shared)
    cluster = torch.randint(len(centres), (n,), generator=rng)
    hidden = (centres[cluster] + torch.randn(n, 40, generator=rng)) @ mixing / 40**0.5
    noise = 0.5 * torch.randn(n, WIDTH, generator=rng)
    return torch.relu(hidden + noise), cluster % CLASSES


def pool(seed: int, device: str) -> Pool:
    features, labels = (values.to(device) for values in made_up(POOL, seed))
    logits = 3 * torch.randn(POOL, CLASSES, generator=torch.Generator().manual_seed(seed)).to(device)
    outputs, known = Outputs(logits, features), Outputs(logits[:0], features[:0])
    head = torch.zeros(CLASSES, WIDTH, device=device), torch.zeros(CLASSES, device=device)
    return Pool(POOL, CLASSES, labels[:0], lambda model: outputs, lambda model: known, lambda model: head)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock, and of the processor with all children that have ended."""

    def spent() -> float:
        return sum(os.times()[:4])

    clock, processor = time.perf_counter(), spent()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds = time.perf_counter() - clock, spent() - processor
    print(f"{seconds[0]:.1f} s", file=sys.stderr, flush=True)
    return seconds


def choices(budgets: list[int], device: str) -> list[tuple[str, float, float]]:
    pools, rows = [pool(k, device) for k in range(CLIENTS)], []
    for name in STRATEGIES_OF_A_CHOICE:
        strategy = make_strategy(name, "global")
        if device == "cuda":  # what is used for the first time is loaded first
            strategy.select_all(pools, 5, [torch.Generator().manual_seed(k) for k in range(CLIENTS)])
        for budget in budgets:
            rngs = [torch.Generator().manual_seed(k) for k in range(CLIENTS)]
            seconds = timed(lambda s=strategy, b=budget, r=rngs: s.select_all(pools, b, r))  # type: ignore[misc]
            rows.append((f"{name}, B = {budget}", *seconds))
    return rows


def runs(fl_rounds: int, threads: int, device: str) -> list[tuple[str, float, float]]:
    with TemporaryDirectory() as folder:
        file, arrays = Path(folder) / "features.npz", dict[str, Any]()
        for part, n, seed in (("train", CLIENTS * POOL, 1), ("test", 10_000, 2)):
            features, labels = made_up(n, seed)
            arrays |= {f"{part}_features": features.numpy(), f"{part}_labels": labels.numpy()}
        np.savez(file, **arrays)
        rows = []
        for strategy, algorithm in RUNS:
            experiment = Experiment(
                dataset=str(file),
                clients=CLIENTS,
                model="linear",
                strategy=strategy,
                algorithm=algorithm,
                budget="10/client",
                rounds=5,
                fl_rounds=fl_rounds,
                evaluate_every=fl_rounds,
                device=device,
                workers=threads,
                runs_dir=Path(folder) / "runs",
            )
            if device == "cuda":
                run(replace(experiment, rounds=2, fl_rounds=2, evaluate_every=2, seed=2), Silent())
            rows.append((f"{strategy}, {algorithm}", *timed(lambda e=experiment: run(e, Silent()))))  # type: ignore[misc]
    return rows


def table(title: str, rows: list[tuple[str, float, float]], promised: float) -> list[str]:
    slowest = max(clock for _, clock, _ in rows)
    verdict = "ok" if slowest < promised else "TOO MUCH"
    lines = ["", f"{title:44}{'seconds':>8}{'of the processor':>18}"]
    lines += [f"{name:44}{clock:8.1f}{processor:18.1f}" for name, clock, processor in rows]
    return [*lines, f"at most {slowest:.1f} s, promised {promised:g}   {verdict}"]


def main(
    budgets: Annotated[str, typer.Option(help="labels of each client")] = "10,50,250",
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    fl_rounds: Annotated[int, typer.Option(help="FL rounds of each AL round", min=1)] = 20,
    threads: Annotated[int, typer.Option(help="cores", min=1)] = 2,
) -> None:
    torch.set_num_threads(threads)
    busy = os.getloadavg()[0]
    choice, whole = PROMISED[device]
    where = f"{cpu_name()}, {threads} cores" if device == "cpu" else torch.cuda.get_device_name()
    lines = [
        f"python benchmarks/few_labels.py --device {device}    ({datetime.now(UTC):%Y-%m-%d})",
        "",
        f"{where}, torch {torch.__version__}; {busy:.1f} other processes at work",
        f"{CLIENTS} clients x {POOL:,} samples x {WIDTH:,} features, made up",
        *table("choice for all clients", choices([int(b) for b in budgets.split(",")], device), choice),
        *table(
            f"five AL rounds of 10/client and {fl_rounds} FL rounds", runs(fl_rounds, threads, device), whole
        ),
    ]
    text = "\n".join(lines)
    print(text)
    (RESULTS / ("few_labels.txt" if device == "cpu" else "few_labels-gpu.txt")).write_text(text + "\n")


if __name__ == "__main__":
    typer.run(main)
