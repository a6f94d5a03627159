"""Training speed on a GPU, in one run: the batched engine, the sequential one, and a plain per-client loop.

    python benchmarks/gpu_engine.py [--trials 3] [--data-dir FOLDER] [--only PART ...]

Every figure is that of whole FL rounds through `engine.train`: batches, flips, loading and returning weights
included. With `--data-dir` (official CIFAR-10 files) it also times LoGo runs from the command line, from the
start of the process to the finished run folder, and compares learning curves between precisions.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedactive.analysis.curves import learning_curves
from fedactive.engines import Engine, own_stream
from fedactive.engines.batched import BatchedEngine, saved_bytes
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.batches import steps_per_epoch
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.federated.weights import to_device
from fedactive.models import ModelSpec
from plain_loop import noise, plain_loop

GPU = torch.device("cuda")
HERE = Path(__file__).parent
EPOCHS = 5
IMAGES_OF_A_RUN = 100 * EPOCHS * (2_500 + 5_000 + 7_500 + 10_000)  # trained on to 20% of CIFAR-10
# model, clients, precision, and the target, where there is one
SETTINGS = (
    ("cnn4", 10, "bf16", 1_500_000),
    ("cnn4", 10, "tf32", 700_000),
    ("cnn4", 10, "fp32", None),
    ("cnn4", 40, "bf16", None),
    ("cnn4", 1000, "bf16", None),
    ("resnet18", 10, "bf16", 120_000),
    ("mobilenet", 10, "bf16", 250_000),
)


def spec(model: str) -> ModelSpec:
    return ModelSpec(model, (3, 32, 32), 10)


def round_of(model: str, clients: int, samples: int, epochs: int = EPOCHS) -> list[LocalJob]:
    start = to_device(spec(model).initial_weights(torch.Generator().manual_seed(0)), GPU)
    labels = torch.zeros(samples, dtype=torch.long)
    rates = (0.01,) * (epochs * steps_per_epoch(samples, 64))
    return [
        LocalJob(start, torch.arange(k * samples, (k + 1) * samples) % 50_000, labels, epochs, rates, k)
        for k in range(clients)
    ]


def seconds(work: Callable[[], object], trials: int) -> float:
    """Median over the trials, after one to warm up."""
    times = []
    for trial in range(trials + 1):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if trial:
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def speed(engine: Engine, model: str, clients: int, samples: int, trials: int, epochs: int = EPOCHS) -> float:
    with closing(engine):
        jobs = round_of(model, clients, samples, epochs)
        return clients * samples * epochs / seconds(lambda: engine.train(jobs), trials)


def copy_bandwidth() -> float:
    """Bytes read and written per second by a large copy."""
    source = torch.empty(2**32, dtype=torch.uint8, device=GPU).random_()
    target = torch.empty_like(source)
    return 2 * source.numel() / seconds(lambda: target.copy_(source), 5)


def throughput(trials: int) -> None:
    data = noise(50_000)
    held = list(torch.arange(4 * 1000).split(1000))
    plain = max(4000 / seconds(plain_loop(data, held, processes, "cuda"), 1) for processes in (0, 4))
    print(f"\n{'samples/s':50}{'':>11}  against plain  target")
    print(f"{'plain loop, PIL DataLoader (0 or 4 processes), cnn4':50}{plain:>11,.0f}")
    for model in ("cnn4", "resnet18", "mobilenet"):
        engine = SequentialEngine(spec(model), data, Recipe(precision="tf32"), GPU)
        value = speed(engine, model, 4, 320, 1, epochs=1)
        print(f"{f'sequential engine, {model}, tf32':50}{value:>11,.0f}", flush=True)
    for model, clients, precision, wanted in SETTINGS:
        samples = 1024 if clients <= 40 else 64
        engine_batched = BatchedEngine(spec(model), data, Recipe(precision=precision), GPU)
        value = speed(engine_batched, model, clients, samples, trials)
        name = f"batched engine, {model}, {clients} clients, {precision}"
        ratio = f"{value / plain:12.0f}x" if model == "cnn4" else ""
        print(f"{name:50}{value:>11,.0f}{ratio:>15}  {f'{wanted:,}' if wanted else '':>7}", flush=True)
        torch.cuda.empty_cache()
    bandwidth = copy_bandwidth()
    moved = 4 * saved_bytes(spec("cnn4")) / 2
    print(
        f"copy bandwidth {bandwidth / 1e12:.2f} TB/s: storing cnn4's maps in 16 bits, written and read once "
        f"forward and once backward, would bound it at {bandwidth / moved:,.0f} samples/s"
    )


def start_up(model: str, precision: str) -> None:
    """Print the seconds from a new engine to its first finished round (in a process of its own)."""
    data = noise(1000)
    begun = time.perf_counter()
    engine = BatchedEngine(spec(model), data, Recipe(precision=precision), GPU)
    engine.train(round_of(model, 10, 64, 1))
    torch.cuda.synchronize()
    print(f"{time.perf_counter() - begun:.1f}")


def start_ups() -> None:
    print("\nstart-up in seconds (compile and record), 10 clients      first time   with its cache")
    for model, precision in (("cnn4", "tf32"), ("resnet18", "bf16"), ("mobilenet", "bf16")):
        code = f"import gpu_engine; gpu_engine.start_up({model!r}, {precision!r})"
        command = [sys.executable, "-c", code]
        times = [
            subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
            for _ in range(2)
        ]
        print(f"{f'{model}, {precision}':58}{times[0]:>10}{times[1]:>17}", flush=True)


def train_for(engine: Engine, duration: float) -> int:
    """FL rounds made in this time, on a stream of its own."""
    rounds, begun = 0, time.perf_counter()
    with own_stream():
        jobs = round_of("cnn4", 10, 1024)
        while time.perf_counter() - begun < duration:
            engine.train(jobs)
            torch.cuda.current_stream().synchronize()
            rounds += 1
    return rounds


def side_by_side() -> None:
    """Threads of one process, as those of `fedactive compare --jobs N`."""
    data, duration = noise(50_000), 3.0
    for precision in ("tf32", "bf16"):
        title = f"runs side by side on one GPU (cnn4, 10 clients, {precision})"
        print(f"\n{title:58}   samples/s of all together   runs to 20% of CIFAR-10 per hour, training alone")
        engines = [BatchedEngine(spec("cnn4"), data, Recipe(precision=precision), GPU) for _ in range(8)]
        for engine in engines:
            engine.train(round_of("cnn4", 10, 64, 1))
        alone = 0.0
        for count in (1, 2, 4, 8):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            with ThreadPoolExecutor(count) as pool:
                rounds = sum(pool.map(train_for, engines[:count], [duration] * count))
            total = rounds * 10 * 1024 * EPOCHS / (time.perf_counter() - begun)
            alone = alone or total
            speed = f"{total:>12,.0f}  ({total / alone:.2f}x)"
            print(f"{f'{count} at a time':58}{speed}{3600 * total / IMAGES_OF_A_RUN:>12.0f}", flush=True)


def on_cifar10(command: str, data_dir: Path, runs: Path, *options: str) -> float:
    """A command of the program on CIFAR-10 as in the paper, in seconds."""
    begun = time.perf_counter()
    flags = ["--data-dir", str(data_dir), "--runs-dir", str(runs), "--partition", "reference"]
    whole = [sys.executable, "-m", "fedactive", command, "--dataset", "cifar10", *flags, *options]
    subprocess.run(whole, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def whole_runs(data_dir: Path) -> None:
    print("\nwhole LoGo runs on CIFAR-10 from the command line, seconds      measured  target")
    runs = (("to 20% labelled, the first on a machine", 4, None), ("to 20%, with its caches", 4, 15))
    with tempfile.TemporaryDirectory() as folder:
        for seed, (name, rounds, target) in enumerate((*runs, ("to 80%, with its caches", 16, 115)), 1):
            options = f"--strategy logo --rounds {rounds} --seed {seed} --precision bf16"
            took = on_cifar10("run", data_dir, Path(folder), *options.split())
            print(f"{f'{name}, bf16':58}{took:>14.0f}{target or '':>8}", flush=True)


def curves(data_dir: Path) -> None:
    print("\naccuracy at 5 and 10% labelled (entropy, CIFAR-10, 3 seeds), by precision")
    with tempfile.TemporaryDirectory() as folder:
        options = ["--strategy", "entropy", "--rounds", "2", "--seed", "1,2,3"]
        on_cifar10("compare", data_dir, Path(folder), *options, "--precision", "fp32,tf32,bf16")
        files = [path.parent for path in Path(folder).glob("*/done.json")]
        for precision, table in learning_curves(files).groupby("setting"):
            by_round = table.groupby("al_round")["accuracy"]
            cells = [f"{values.mean():.2f} ± {values.std():.2f}" for _, values in by_round]
            print(f"{precision!s:24}{'   '.join(cells)}", flush=True)


PARTS = ("start-up", "runs", "throughput", "side by side", "curves")


def main(
    trials: Annotated[int, typer.Option(help="measurements of each setting")] = 3,
    data_dir: Annotated[Path | None, typer.Option(help="official CIFAR-10 files, to time whole runs")] = None,
    only: Annotated[list[str] | None, typer.Option(help="of " + ", ".join(PARTS))] = None,
) -> None:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    print(f"{gpu} (driver), torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}")
    print(f"32x32x3 images, batch 64, rounds of {EPOCHS} epochs; median of {trials} trials after a warm-up")
    wanted = only or PARTS
    with tempfile.TemporaryDirectory() as cache:  # empty at first, so that start-up is measured from nothing
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{cache}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{cache}/triton"
        os.environ["PYTHONPYCACHEPREFIX"] = f"{cache}/python"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if "start-up" in wanted:
            start_ups()
        if data_dir and "runs" in wanted:  # before anything else compiles what they need
            whole_runs(data_dir)
        if "throughput" in wanted:
            throughput(trials)
        if "side by side" in wanted:
            side_by_side()
        if data_dir and "curves" in wanted:
            curves(data_dir)


if __name__ == "__main__":
    typer.run(main)
