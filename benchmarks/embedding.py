"""How many images a second a backbone embeds on a CPU, beside the loops that people write.

    python benchmarks/embedding.py [--images 256] [--sizes 224,128,64] [--trials 3] [--data-dir data]

All compute the same features of CIFAR-10's first test images by EfficientNet-Lite0 with its ImageNet weights:

- `DataLoader`: Pillow resizes each image, a DataLoader collates batches of 64 (no worker processes), and the
  network, in evaluation and inference mode, runs on each batch with all of PyTorch's threads;
- `one by one`: the same with a batch size of 1;
- `embed`: what --backbone does, with an empty cache, which it fills.

They take turns within each trial, so that a noisy machine slows all of them alike.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from fedactive.backbones.cache import VARIABLE
from fedactive.backbones.embedding import embed
from fedactive.backbones.find import find_backbone
from fedactive.data.loader import load
from fedactive.engines import usable_cores
from fedactive.models import ModelSpec
from fedactive.models.architectures.efficientnet_lite0 import IMAGENET
from fedactive.record.environment import cpu_name

NAME = "efficientnet_lite0"
CPU = torch.device("cpu")


class Photographs(Dataset[Tensor]):
    """Images as Pillow resizes them, normalised."""

    def __init__(self, images: Tensor, size: int) -> None:
        self.images, self.size = images.permute(0, 2, 3, 1).numpy(), size

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> Tensor:
        image = Image.fromarray(self.images[i]).resize((self.size,) * 2, Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET.mean, IMAGENET.std))
        return (pixels - mean) / std


def plain_loop(images: Tensor, size: int, batch: int) -> Tensor:
    spec = ModelSpec(NAME, (3, size, size), 2, weights="pretrained")
    model = spec.build()
    model.load_state_dict(spec.initial_weights(torch.Generator().manual_seed(0)))
    model.eval()
    with torch.inference_mode():
        return torch.cat([model.embed(part) for part in DataLoader(Photographs(images, size), batch)])


def with_empty_cache(images: Tensor, size: int) -> Tensor:
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder
        return embed(find_backbone(NAME), images, size, CPU)


def main(
    images: Annotated[int, typer.Option(help="images embedded in each turn")] = 256,
    sizes: Annotated[str, typer.Option(help="sides in pixels to which they are resized")] = "224,128,64",
    trials: Annotated[int, typer.Option(help="measurements of each")] = 3,
    data_dir: Annotated[Path, typer.Option(help="folder of CIFAR-10")] = Path("data"),
) -> None:
    pixels = load("cifar10", data_dir).test_inputs[:images]
    print(f"{cpu_name()}, {usable_cores()} cores, torch {torch.__version__}")
    print(f"{len(pixels)} images of CIFAR-10, {NAME}; images/s, median of {trials} trials\n")
    print(f"{'size':>5} {'one by one':>11} {'DataLoader':>11} {'embed':>8} {'faster than the better':>23}")
    for size in map(int, sizes.split(",")):
        ways: list[Callable[[], Tensor]] = [
            partial(plain_loop, pixels, size, 1),
            partial(plain_loop, pixels, size, 64),
            partial(with_empty_cache, pixels, size),
        ]
        seconds: list[list[float]] = [[] for _ in ways]
        for _ in range(trials):
            found = []
            for way, taken in zip(ways, seconds, strict=True):
                begun = time.perf_counter()
                found.append(way())
                taken.append(time.perf_counter() - begun)
            # Not the same to the last digit: Pillow rounds pixels a little differently.
            assert torch.allclose(found[1], found[2], atol=0.2), (found[1] - found[2]).abs().max()
        one, batches, ours = (len(pixels) / statistics.median(taken) for taken in seconds)
        print(
            f"{size:5} {one:11.1f} {batches:11.1f} {ours:8.1f} {ours / max(one, batches):22.1f}x", flush=True
        )


if __name__ == "__main__":
    typer.run(main)
