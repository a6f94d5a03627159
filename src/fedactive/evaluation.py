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
    loss = F.cross_entropy(logits.double(), labels)
    # One transfer for all numbers: each waits for the device. Counts below 2^53 are exact in float64.
    *counts, mean_loss = torch.cat([count_pairs(logits, labels, classes).double(), loss[None]]).tolist()
    pairs = torch.tensor(counts, dtype=torch.long).view(classes, classes)
    return Evaluation(
        tested=pairs.sum(1).tolist(), right=pairs.diagonal().tolist(), predicted=pairs.sum(0).tolist(),
        loss=mean_loss,
    )  # fmt: skip


def confusion(logits: Tensor, labels: Tensor, classes: int) -> list[int]:
    """Count images by their class and, within it, by the class they were taken for; row after row."""
    return count_pairs(logits, labels, classes).tolist()


def count_pairs(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    pairs = labels * classes + logits.argmax(1)
    # Unlike bincount, this does not wait for the device to look for the largest.
    counts = torch.zeros(classes**2, dtype=torch.long, device=labels.device)
    return counts.scatter_add_(0, pairs, torch.ones_like(pairs))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
