"""The architectures by name. `ModelSpec` is all a worker needs to build the same model somewhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import torch

from fedactive.models.architectures.cnn4 import CNN4
from fedactive.models.architectures.mobilenet import MobileNet
from fedactive.models.architectures.resnet18 import ResNet18
from fedactive.models.classifier import Classifier, initialise

MODELS: dict[str, Callable[[tuple[int, int, int], int], Classifier]] = {
    "cnn4": CNN4,
    "resnet18": ResNet18,
    "mobilenet": MobileNet,
}

BUILDING = Lock()  # held by one thread at a time: building puts PyTorch's global generator back

__all__ = ["MODELS", "Classifier", "ModelSpec"]


@dataclass(frozen=True)
class ModelSpec:
    """An architecture for one image shape and number of classes."""

    name: str
    image_shape: tuple[int, int, int]
    classes: int

    def build(self) -> Classifier:
        """The model; what its weights are to be comes from `initial_weights` or from training."""
        with BUILDING, torch.random.fork_rng(devices=()):  # that generator is not ours to draw from
            return MODELS[self.name](self.image_shape, self.classes)

    def initial_weights(self, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Fresh weights and BatchNorm buffers drawn from `generator`."""
        model = self.build()
        initialise(model, generator)
        return {name: value.detach() for name, value in model.state_dict().items()}
