"""A model by name: all that a worker needs to build the same model elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import torch

from fedactive.errors import ConfigurationError
from fedactive.models.classifier import BatchNorm, Classifier
from fedactive.registry import MODELS

DRAWING = Lock()  # for the thread that seeds: there is one global generator

register = MODELS.register


@contextmanager
def seed_generators(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed PyTorch's global generators inside the block, and restore them after it."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    with DRAWING, torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed(seed)
        yield


@dataclass(frozen=True)
class ModelSpec:
    """A model for one shape of inputs and number of classes, with its options as text."""

    name: str
    input_shape: tuple[int, ...]
    classes: int
    options: str = ""
    weights: str = "random"  # "pretrained": all but the head begin as published, and BatchNorms are fixed

    def build(self, seed: int = 0) -> Classifier:
        """Build the model; what its constructor draws follows from the seed, the same in every process."""
        cls = MODELS[self.name]
        if len(self.input_shape) not in getattr(cls, "dimensions", (3,)):
            allowed = "a model for features, as linear and mlp: the dataset holds no images"
            raise ConfigurationError("model", self.name, allowed)
        options = MODELS.all_options(self.name, self.options)
        with seed_generators(seed):
            model: Classifier = cls(self.input_shape, self.classes, **options)
        for part in model.modules():
            if isinstance(part, BatchNorm):
                part.fixed = self.weights == "pretrained"
        return model

    def initial_weights(self, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Draw weights and buffers that follow from the generator's seed; of a pretrained model the head."""
        model = self.build(generator.initial_seed())
        model.initialise(generator)
        if self.weights == "pretrained":
            MODELS[self.name].published.load_into(model)
        return {name: value.detach() for name, value in model.state_dict().items()}
