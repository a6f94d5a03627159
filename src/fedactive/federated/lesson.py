"""What one job's objective is told about each batch, and the loss that follows.

Labelled and mixed images go through the model together, as one batch: BatchNorm sees both. Mixed images are
as many as labelled ones, and are not mirrored. If the pool is empty, there are none.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedactive.data.preprocess import Normalise
from fedactive.federated.batches import mixed_pairs
from fedactive.federated.inference import autocast, infer
from fedactive.federated.objective import Labelled, Mixed
from fedactive.models.classifier import Classifier

if TYPE_CHECKING:
    from fedactive.federated.local_sgd import LocalJob


class Lesson:
    """Computes the loss of `model`, which is trained, on batches of `job`."""

    def __init__(
        self, model: Classifier, images: Tensor, normalise: Normalise, precision: str, job: LocalJob
    ) -> None:
        self.model, self.normalise, self.precision = model, normalise, precision
        self.objective, device = job.objective, images.device
        self.counts = count_classes(job.labels, model.head.out_features).to(device)
        self.fl_round = torch.tensor(float(job.fl_round), device=device)
        if needs_teacher(job):
            self.teacher = teacher_of(model, job)
        self.mixes = self.objective.needs_mixed and len(job.pool) > 0
        if self.mixes:
            self.pool = images[job.pool.to(device)]
            size = (job.epochs, len(job.samples), len(job.pool))
            self.first, self.second, self.share = mixed_pairs(job.shuffle, *size, device)
            self.guesses = infer(self.teacher, self.pool, normalise, precision)[0].argmax(1)

    def loss(self, x: Tensor, labels: Tensor, epoch: int, cut: slice) -> Tensor:
        """Return ℓ of these labelled images, and of the mixed ones at the same places of the epoch."""
        n = len(x)
        if self.mixes:
            first, second, share = (t[epoch, cut] for t in (self.first, self.second, self.share))
            x = torch.cat([x, self.normalise(mix(self.pool[first], self.pool[second], share))])
        logits = self.model(x)[0].float()
        taught = self.ask_teacher(x[:n]) if self.objective.needs_global else None
        loss = self.objective.losses(Labelled(logits[:n], labels, self.counts, self.fl_round, taught)).mean()
        if self.mixes:
            guesses = (self.guesses[first], self.guesses[second])
            known = Mixed(logits[n:], self.ask_teacher(x[n:]), share, *guesses, self.counts, self.fl_round)
            loss = loss + self.objective.mixed_losses(known).mean()
        return loss

    @torch.no_grad()
    def ask_teacher(self, x: Tensor) -> Tensor:
        with autocast(x.device, self.precision):
            logits: Tensor = self.teacher(x)[0]
            return logits.float()


def needs_teacher(job: LocalJob) -> bool:
    return job.objective.needs_global or (job.objective.needs_mixed and len(job.pool) > 0)


def teacher_of(model: Classifier, job: LocalJob) -> Classifier:
    """Return another model of this kind with the teacher's weights, in evaluation mode."""
    assert job.teacher is not None, f"objective {job.objective.name} needs the global model"
    teacher = deepcopy(model).requires_grad_(False)
    teacher.load_state_dict(job.teacher)
    return teacher.eval()


def count_classes(labels: Tensor, classes: int) -> Tensor:
    """Return n_c: how many of these labels each class has."""
    return torch.bincount(labels, minlength=classes).float()


def mix(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """Return β·x + (1 - β)·x' of samples as the dataset holds them."""
    beta = share.view(-1, *(1 for _ in x.shape[1:]))
    return beta * x + (1 - beta) * other
