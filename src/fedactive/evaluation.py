"""How a model did on test images, as counts by class: every metric is computed from these."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Evaluation:
    """Counts of test images by class. They add up over sites; metrics do not."""

    tested: list[int]  # images of each class
    right: list[int]  # those of them that were classified as such
    predicted: list[int]  # images that were classified as each class, rightly or not
    loss: float  # mean cross-entropy; NaN without test images, or where training diverged

    @property
    def accuracy(self) -> float:
        """The share of all test images that were classified rightly; NaN without any."""
        return _share(sum(self.right), sum(self.tested))

    @property
    def class_accuracy(self) -> list[float]:
        """The same share class by class."""
        return list(map(_share, self.right, self.tested))


def evaluate(logits: Tensor, labels: Tensor, classes: int) -> Evaluation:
    """Count what these logits say about images with these labels."""
    guesses = logits.argmax(1)

    def count(among: Tensor) -> list[int]:
        return torch.bincount(among, minlength=classes).tolist()

    return Evaluation(
        tested=count(labels),
        right=count(labels[guesses == labels]),
        predicted=count(guesses),
        loss=F.cross_entropy(logits.double(), labels).item(),
    )


def confusion(logits: Tensor, labels: Tensor, classes: int) -> list[int]:
    """Count images by their class and, within it, by the class they were taken for; row after row."""
    return torch.bincount(labels * classes + logits.argmax(1), minlength=classes**2).tolist()


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
