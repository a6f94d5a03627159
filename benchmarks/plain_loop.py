"""The baseline of the speed benchmarks: per-client training as the field's repositories do it.

One client after another, a DataLoader over PIL images with a random flip, conversion and normalisation per
image, contiguous NCHW tensors, PyTorch's default threads, `.item()` after each step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from fedactive.data.dataset import Dataset

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def noise(images: int) -> Dataset:
    """Random images of CIFAR-10's shape: speed does not depend on what they show."""
    rng = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, 32, 32), dtype=torch.uint8, generator=rng)
    labels = torch.randint(0, 10, (images,), generator=rng)
    return Dataset("noise", pixels, labels, pixels[:1], labels[:1], tuple("0123456789"), MEAN, STD)


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


def plain_loop(
    data: Dataset, clients: list[Tensor], loader_processes: int, device: str = "cpu"
) -> Callable[[], None]:
    """Training of all clients for one epoch, one after another."""
    images = data.train_inputs.permute(0, 2, 3, 1).contiguous().numpy()
    held = [PilImages(images[c.numpy()], data.train_labels[c].tolist()) for c in clients]
    model = plain_model().to(device)

    def run() -> None:
        for images in held:
            optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)
            for x, y in DataLoader(images, batch_size=64, shuffle=True, num_workers=loader_processes):
                optimiser.zero_grad()
                loss = F.cross_entropy(model(x.to(device)), y.to(device))
                loss.backward()
                optimiser.step()
                loss.item()

    return run


def plain_inference(data: Dataset) -> Callable[[], None]:
    """Evaluation of all images, 512 at a time."""
    model = plain_model().eval()
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    images = data.train_inputs.float().div(255).sub_(mean).div_(std)

    @torch.inference_mode()
    def run() -> None:
        torch.cat([model(part) for part in images.split(512)])

    return run
