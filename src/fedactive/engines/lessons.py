"""What a stack's objective is told about each client, and one client's loss: `federated.lesson` for many.

A stack whose objective needs mixed images has twice as many places as a batch has: labelled images come
first, mixed ones behind them. The buffers never move, so that a step can be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fedactive.data.preprocess import Normalise
from fedactive.engines.plan import unpack_pairs
from fedactive.federated.inference import autocast, infer, inference_batch
from fedactive.federated.lesson import count_classes
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.federated.objective import Labelled, Mixed, Objective
from fedactive.models.classifier import Classifier


class Told(NamedTuple):
    """What the objective is told beside logits and labels; all clients have a row in each. P: places."""

    counts: Tensor  # (C,)
    fl_round: Tensor  # ()
    global_logits: Tensor  # (P, C), of the places about which the teacher is asked
    share: Tensor  # of mixed places, as in `Mixed`
    first: Tensor
    second: Tensor


def places(recipe: Recipe, objective: Objective) -> Recipe:
    """Return the recipe with as many places in a batch as this objective needs."""
    return replace(recipe, batch_size=recipe.batch_size * (2 if objective.needs_mixed else 1))


class Lessons:
    """The objective of a stack and what it is told. All clients have one teacher."""

    def __init__(
        self,
        objective: Objective,
        model: Classifier,
        images: Tensor,
        normalise: Normalise,
        recipe: Recipe,
        width: int,
    ) -> None:
        self.objective, self.images, self.normalise = objective, images, normalise
        self.precision, self.batch = recipe.precision, recipe.batch_size
        self.places = places(recipe, objective).batch_size
        self.asked = slice(0 if objective.needs_global else self.batch, self.places)  # of the teacher
        needs_teacher = objective.needs_global or objective.needs_mixed
        self.teacher = deepcopy(model).requires_grad_(False).eval() if needs_teacher else None
        self.guesses = torch.zeros(len(images) if objective.needs_mixed else 0, dtype=torch.long)
        self.guesses = self.guesses.to(images.device)  # the teacher's class of each image in a pool
        classes, mixed = model.head.out_features, self.places - self.batch
        self.told = Told(
            counts=torch.ones(width, classes, device=images.device),  # nobody has none, which could be NaN
            fl_round=torch.zeros(width, device=images.device),
            global_logits=torch.zeros(
                width, len(range(self.places)[self.asked]), classes, device=images.device
            ),
            share=torch.zeros(width, mixed, device=images.device),
            first=torch.zeros(width, mixed, dtype=torch.long, device=images.device),
            second=torch.zeros(width, mixed, dtype=torch.long, device=images.device),
        )

    def load(self, jobs: Sequence[LocalJob]) -> None:
        """Take over what these jobs' objectives are told from beginning to end."""
        classes = self.told.counts.shape[1]
        self.told.counts[: len(jobs)] = torch.stack([count_classes(j.labels, classes) for j in jobs]).to(
            self.images.device
        )
        self.told.fl_round[: len(jobs)] = torch.tensor([float(job.fl_round) for job in jobs])
        if self.teacher is None:
            return
        teacher = jobs[0].teacher
        assert teacher is not None, f"objective {self.objective.name} needs the global model"
        self.teacher.load_state_dict(teacher)
        if self.objective.needs_mixed:
            pool = torch.cat([job.pool for job in jobs]).to(self.images.device)
            guessed, _ = infer(self.teacher, self.images[pool], self.normalise, self.precision)
            self.guesses[pool] = guessed.argmax(1)

    def teach(self, samples: Tensor) -> Tensor:
        """Return the teacher's logits for these training images, not mirrored."""
        assert self.teacher is not None
        pixels = self.images[samples.to(self.images.device)]
        return infer(self.teacher, pixels, self.normalise, self.precision)[0]

    # --- in each step

    def prepare(self, batch: Tensor, codes: Tensor, targets: Tensor) -> None:
        """Mix images in `batch`, which is (clients, places, ...), and ask the teacher about them."""
        if self.objective.needs_mixed:
            self.mix(batch[:, self.batch :], codes[:, self.batch :], targets[:, self.batch :])
        if self.teacher is not None:
            self.ask_teacher(batch[:, self.asked])

    def mix(self, images: Tensor, codes: Tensor, targets: Tensor) -> None:
        """Mix x, which is in its place, with x'. Normalised images mix as raw ones do."""
        first, (second, share) = codes.clamp_min(0) >> 1, unpack_pairs(targets)
        others = self.normalise(self.images[second.flatten()]).movedim(1, -1).view_as(images)
        beta = share.view(*share.shape, *(1 for _ in images.shape[2:]))
        images.copy_(beta * images + (1 - beta) * others)
        self.told.share.copy_(share)
        self.told.first.copy_(self.guesses[first])
        self.told.second.copy_(self.guesses[second])

    @torch.no_grad()
    def ask_teacher(self, images: Tensor) -> None:
        assert self.teacher is not None
        inputs = images.movedim(-1, 2).flatten(0, 1)
        with autocast(inputs.device, self.precision):
            parts = [self.teacher(part)[0].float() for part in inputs.split(inference_batch(inputs))]
        self.told.global_logits.copy_(torch.cat(parts).view_as(self.told.global_logits))

    def loss(self, logits: Tensor, targets: Tensor, present: Tensor, told: Told) -> Tensor:
        """Return one client's ℓ for the logits (places, C) of its batch."""
        n, objective = self.batch, self.objective
        taught = told.global_logits[:n] if objective.needs_global else None
        known = Labelled(logits[:n], targets[:n], told.counts, told.fl_round, taught)
        loss = mean_of(objective.losses(known), present[:n])
        if objective.needs_mixed:
            mixed = Mixed(
                logits[n:], told.global_logits[-n:], told.share, told.first, told.second,
                told.counts, told.fl_round,
            )  # fmt: skip
            loss = loss + mean_of(objective.mixed_losses(mixed), present[n:])
        return loss


def mean_of(losses: Tensor, present: Tensor) -> Tensor:
    return losses.masked_fill(~present, 0.0).sum() / present.sum().clamp_min(1)
