"""A model small enough to train by hand: one pixel x in {0, 1}, two classes, logits = W·x + b."""

import torch
from torch import nn

from fedactive.data.preprocess import Normalise
from fedactive.federated.local_sgd import LocalJob, Recipe, train
from fedactive.models import Classifier

PIXELS = torch.tensor([255, 255, 0], dtype=torch.uint8).view(3, 1, 1, 1)  # three samples: x = 1, 1, 0
ZERO = {"head.weight": torch.zeros(2, 1), "head.bias": torch.zeros(2)}
PLAIN = Recipe(batch_size=64, momentum=0.9, weight_decay=0.0, augment="none")


class Tiny(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.utils.skip_init(nn.Linear, 1, 2)

    def embed(self, images):
        return images.flatten(1)


def train_tiny(recipe=PLAIN, **job):
    """One sample with x = 1 and class 0, learning rate 0.1, unless told otherwise."""
    job = {
        "start": ZERO,
        "samples": torch.tensor([0]),
        "labels": torch.tensor([0]),
        "epochs": 2,
        "rates": (0.1, 0.1),
        "shuffle": 0,
    } | job
    normalise = Normalise((1, 1, 1), [0.0], [1.0], torch.device("cpu"))
    return train(Tiny(), PIXELS, normalise, recipe, LocalJob(**job))
