"""Training speed on the CPU: this package's engines against a plain per-client PyTorch loop, in one run.

    python benchmarks/cpu_engine.py [--clients 10] [--samples 320] [--trials 5]

The baseline is what the field's repositories do: one client after another, a DataLoader over PIL images with
a random flip, conversion and normalisation per image, contiguous NCHW tensors, PyTorch's default threads. It
is measured with and without loader processes, and the faster of the two counts. All variants train cnn4 on
32x32x3 images, batch 64, in turn within each trial, so that a noisy machine slows all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
import typer
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from fedactive.data import Dataset
from fedactive.engines import Engine, ParallelEngine, SequentialEngine, usable_cores
from fedactive.environment import cpu_name
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec

SPEC = ModelSpec("cnn4", (3, 32, 32), 10)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PilImages(TorchDataset[tuple[Tensor, int]]):
    """One client's images as arrays; each becomes a picture, then a tensor, whenever it is asked for."""

    def __init__(self, images: npt.NDArray[np.uint8], labels: list[int]) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images[index])
        if torch.rand(1) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
        return pixels.sub_(mean).div_(std), self.labels[index]


def plain_model() -> nn.Module:
    """cnn4 as it is usually written: convolution, BatchNorm, ReLU, max-pooling."""
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [
            nn.Conv2d(3 if i == 0 else 64, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 10))


def plain_loop(data: Dataset, clients: list[Tensor], loader_processes: int) -> Callable[[], None]:
    images = data.train_images.permute(0, 2, 3, 1).contiguous().numpy()
    held = [PilImages(images[c.numpy()], data.train_labels[c].tolist()) for c in clients]
    model = plain_model()

    def run() -> None:
        for images in held:
            optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)
            for x, y in DataLoader(images, batch_size=64, shuffle=True, num_workers=loader_processes):
                optimiser.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimiser.step()
                loss.item()

    return run


def engine_loop(engine: Engine, data: Dataset, clients: list[Tensor]) -> Callable[[], None]:
    start = SPEC.initial_weights(torch.Generator().manual_seed(0))
    jobs = [
        LocalJob(start, samples, data.train_labels[samples], 1, (0.01,) * -(-len(samples) // 64), k)
        for k, samples in enumerate(clients)
    ]

    def run() -> None:
        engine.train(jobs)

    return run


def main(
    clients: Annotated[int, typer.Option(help="number of clients")] = 10,
    samples: Annotated[int, typer.Option(help="labelled samples per client")] = 320,
    trials: Annotated[int, typer.Option(help="measurements of each variant")] = 5,
) -> None:
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (clients * samples, 3, 32, 32), dtype=torch.uint8, generator=rng)
    labels = torch.randint(0, 10, (clients * samples,), generator=rng)
    data = Dataset("noise", images, labels, images[:1], labels[:1], tuple("0123456789"), MEAN, STD)
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
        }
        seconds: dict[str, list[float]] = {name: [] for name in variants}
        for trial in range(trials + 1):
            for name, run in variants.items():
                begun = time.perf_counter()
                run()
                if trial:  # the first round warms up
                    seconds[name].append(time.perf_counter() - begun)

    speed = {name: clients * samples / statistics.median(s) for name, s in seconds.items()}
    baseline = max(value for name, value in speed.items() if name.startswith("plain"))
    print(f"{cpu_name()}, {cores} cores, torch {torch.__version__}, {clients} clients x {samples} samples")
    print(f"cnn4, 32x32x3, batch 64; median of {trials} trials\n")
    print(f"{'':42}samples/s   against the faster plain loop")
    for name, value in speed.items():
        print(f"{name:42}{value:9,.0f}   {value / baseline:5.2f}x")


if __name__ == "__main__":
    typer.run(main)
