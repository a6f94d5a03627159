"""How long does a report take, and how much memory? Promised: 500 runs in 10 seconds and 1 GB on two cores.

    python benchmarks/report.py [--runs 500]

The runs are made up, but of full size (cifar10, 10 clients, 16 AL rounds of 100 FL rounds, 40,000 labels) and
written by the code that writes real ones: a State is filled with noise and finished. Five strategies, four
seeds; the other settings are copies under another configuration. The report is then made in a process of its
own; seconds count from its start, imports included.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from contextlib import closing
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import torch
import typer

from fedactive.evaluation import Evaluation
from fedactive.experiment import Experiment
from fedactive.federation import Query, QueryPhase
from fedactive.record.run_folder import Run

SECONDS, GIGABYTES = 10.0, 1.0
STRATEGIES = ("random", "entropy", "badge", "coreset", "logo")
SAMPLES, CLASSES, TESTED = 50_000, 10, 1000  # test images of a class
REPORT = """
import sys
from pathlib import Path
from fedactive.analysis.report import write_report
write_report([Path(sys.argv[1])], Path(sys.argv[2]))
"""


def make_run(experiment: Experiment) -> Path:
    """A finished run folder full of noise around a learning curve."""
    e, rng = experiment, np.random.default_rng(experiment.seed)
    pools = np.array_split(rng.permutation(SAMPLES), e.clients)
    size = int(SAMPLES * e.percent / 100 / e.clients)
    level = 60 + STRATEGIES.index(e.strategy) + rng.normal()
    with closing(Run(e)) as run:
        run.begin(pools, "cpu", "parallel")
        phases = ("training", "evaluation", "local-only training", "scoring", "selection")
        for r in range(1, e.rounds + 1):
            samples = [torch.from_numpy(pool[(r - 1) * size : r * size]) for pool in pools]
            scores = torch.from_numpy(rng.random(size, dtype=np.float32))
            queries = [Query(k, s, scores) for k, s in enumerate(samples)]
            labels = [torch.from_numpy(rng.integers(CLASSES, size=size)) for _ in queries]
            seconds = {phase: float(rng.random()) for phase in phases}
            local = [noisy(30, rng) for _ in range(e.clients)] if r > 1 else []
            run.state.add_queries(r, QueryPhase(queries, local, seconds), labels)
            for fl_round in range(e.fl_rounds):
                run.state.add_evaluation(r, fl_round, noisy(level + r, rng))
            run.state.al_round = r + 1
        run.finish()
    return run.folder


def noisy(percent: float, rng: np.random.Generator) -> Evaluation:
    right = np.rint(TESTED * (percent + rng.normal(size=CLASSES)) / 100).astype(int)
    predicted = right + np.roll(TESTED - right, 1)
    return Evaluation([TESTED] * CLASSES, right.tolist(), predicted.tolist(), float(rng.random()))


def make_runs(folder: Path, runs: int) -> None:
    templates: dict[tuple[str, int], Path] = {}
    grid = product(range(runs), (1, 2, 3, 4), STRATEGIES)
    for _, (setting, seed, strategy) in zip(range(runs), grid, strict=False):
        e = Experiment(
            dataset="cifar10",
            strategy=strategy,
            seed=seed,
            alpha=round(0.1 + setting / 100, 2),
            runs_dir=folder,
        )
        if (strategy, seed) not in templates:
            templates[strategy, seed] = make_run(e)
        else:
            shutil.copytree(templates[strategy, seed], folder / e.name)
            (folder / e.name / "experiment.toml").write_text(e.to_toml())


def main(runs: Annotated[int, typer.Option(help="number of run folders", min=1)] = 500) -> None:
    with TemporaryDirectory() as name:
        folder, page = Path(name) / "runs", Path(name) / "report.html"
        make_runs(folder, runs)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", REPORT, str(folder), str(page)], check=True)
        seconds = time.perf_counter() - start
        # Of the children waited for, the largest: the report's process (git, asked for a revision, is small).
        gigabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
        megabytes = page.stat().st_size / 1e6
    print(f"{runs} runs of 16 AL rounds x 100 FL rounds, read and reported; the page has {megabytes:.1f} MB")
    for what, value, promise in (("seconds", seconds, SECONDS), ("GB", gigabytes, GIGABYTES)):
        print(f"{value:6.2f} {what:8} promised {promise:g}   {'ok' if value < promise else 'TOO MUCH'}")
    if seconds >= SECONDS or gigabytes >= GIGABYTES:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
