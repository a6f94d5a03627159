"""How many images a second a backbone embeds on a CPU, beside the loops that people write.

    python benchmarks/embedding.py [--images 128] [--sizes 224,128,64] [--trials 5] [--data-dir data]

All compute the same features of CIFAR-10's first test images by EfficientNet-Lite0 with its ImageNet weights:

- `DataLoader`: Pillow resizes each image, a DataLoader collates batches of 64 (no worker processes), and the
  network, in evaluation and inference mode, runs on each batch with all of PyTorch's threads;
- `one by one`: the same with a batch size of 1;
- `embed`: what --backbone does: see `backbones/embedding.py`.

Networks are loaded before. All take turns within each trial, and the best trial of each counts: whatever else
the machine does can only slow them down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from fedactive.backbones.embedding import compute, prepare, workers
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


def plain_loop(size: int, batch: int) -> Callable[[Tensor], Tensor]:
    spec = ModelSpec(NAME, (3, size, size), 2, weights="pretrained")
    model = spec.build()
    model.load_state_dict(spec.initial_weights(torch.Generator().manual_seed(0)))
    model.eval()

    @torch.inference_mode()
    def run(images: Tensor) -> Tensor:
        return torch.cat([model.embed(part) for part in DataLoader(Photographs(images, size), batch)])

    return run


def ours(size: int) -> Callable[[Tensor], Tensor]:
    apply = prepare(find_backbone(NAME), size, CPU)

    def run(images: Tensor) -> Tensor:
        with workers(CPU) as side_by_side:
            return compute(apply, images, size, CPU, side_by_side, report=lambda count: None)

    return run


def main(
    images: Annotated[int, typer.Option(help="images embedded in each turn")] = 128,
    sizes: Annotated[str, typer.Option(help="sides in pixels to which they are resized")] = "224,128,64",
    trials: Annotated[int, typer.Option(help="measurements of each")] = 5,
    data_dir: Annotated[Path, typer.Option(help="folder of CIFAR-10")] = Path("data"),
) -> None:
    pixels = load("cifar10", data_dir).test_inputs[:images]
    print(f"{cpu_name()}, {usable_cores()} cores, torch {torch.__version__}")
    print(f"{len(pixels)} images of CIFAR-10, {NAME}; images/s, best of {trials} trials\n")
    print(f"{'size':>5} {'one by one':>11} {'DataLoader':>11} {'embed':>8} {'against DataLoader':>19}")
    for size in map(int, sizes.split(",")):
        ways = [plain_loop(size, 1), plain_loop(size, 64), ours(size)]
        seconds: list[list[float]] = [[] for _ in ways]
        for _ in range(trials):
            found = []
            for way, taken in zip(ways, seconds, strict=True):
                begun = time.perf_counter()
                found.append(way(pixels))
                taken.append(time.perf_counter() - begun)
            # Not the same to the last digit: Pillow rounds pixels a little differently.
            assert torch.allclose(found[1], found[2], atol=0.2), (found[1] - found[2]).abs().max()
        one, batches, here = (len(pixels) / min(taken) for taken in seconds)
        columns = f"{size:5} {one:11.1f} {batches:11.1f} {here:8.1f} {here / batches:18.1f}x"
        print(columns, flush=True)


if __name__ == "__main__":
    typer.run(main)
