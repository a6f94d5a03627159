"""How good a model is on the test set: accuracy, loss, and accuracy class by class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Evaluation:
    accuracy: float
    loss: float
    class_accuracy: list[float]  # NaN for a class without test samples


def evaluate(logits: Tensor, labels: Tensor, classes: int) -> Evaluation:
    right = (logits.argmax(1) == labels).double()
    per_class = torch.bincount(labels, weights=right, minlength=classes) / torch.bincount(
        labels, minlength=classes
    )
    return Evaluation(
        accuracy=right.mean().item(),
        loss=F.cross_entropy(logits.double(), labels).item(),
        class_accuracy=per_class.tolist(),
    )
