"""A model by name: all that a worker needs to build the same one somewhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import torch

from fedactive.models.classifier import Classifier
from fedactive.registry import MODELS

DRAWING = Lock()  # held by one thread at a time: there is one global generator

register = MODELS.register


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed PyTorch's global generators inside the block; they are not ours to draw from, so put them back."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    with DRAWING, torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed(seed)
        yield


@dataclass(frozen=True)
class ModelSpec:
    """A model for one image shape and number of classes, with its options as text."""

    name: str
    image_shape: tuple[int, int, int]
    classes: int
    options: str = ""

    def build(self, seed: int = 0) -> Classifier:
        """Build the model; what its constructor draws follows the seed, in every process alike."""
        options = MODELS.all_options(self.name, self.options)
        with seeded(seed):
            model: Classifier = MODELS[self.name](self.image_shape, self.classes, **options)
            return model

    def initial_weights(self, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Fresh weights and buffers that follow the generator's seed."""
        model = self.build(generator.initial_seed())
        model.initialise(generator)
        return {name: value.detach() for name, value in model.state_dict().items()}
