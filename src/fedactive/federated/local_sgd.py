"""Train one client: mini-batch SGD on its labelled samples. This is the definition for all engines.

    g = ∇ℓ(w) + λ·w + μ·(w - w_start) + drift        v = m·v + g        w = w - η·v

λ is the weight decay, m the momentum, η the learning rate. μ > 0 is FedProx, a drift is SCAFFOLD; plain
FedAvg and local-only training have neither. The velocity v is fresh for every job. ℓ is the job's objective.

The step is written out because torch.optim.SGD takes a second to import in every process that trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fedactive.data.preprocess import Normalise
from fedactive.federated.augmentation import make_augmentation
from fedactive.federated.batches import draw_keys, shuffled, steps_per_epoch
from fedactive.federated.inference import autocast, chunks, infer
from fedactive.federated.lesson import Lesson
from fedactive.federated.objective import Objective
from fedactive.federated.objectives.cross_entropy import CrossEntropy
from fedactive.federated.own_loss import OwnLoss
from fedactive.federated.weights import Weights
from fedactive.models.classifier import Classifier
from fedactive.models.spec import seed_generators


@dataclass(frozen=True)
class Recipe:
    """What all local training of a run shares."""

    batch_size: int = 64
    momentum: float = 0.9
    weight_decay: float = 1e-5
    augment: str = "flip"  # names of augmentations, joined by +
    precision: str = "fp32"


@dataclass(frozen=True)
class LocalJob:
    """One client's training: from `start`, on these samples, for so many epochs."""

    start: Weights
    samples: Tensor  # positions in the training images
    labels: Tensor
    epochs: int
    rates: tuple[float, ...]  # η of each step
    shuffle: int  # seed of the batches and of what augmentations draw
    proximal: float = 0.0  # μ
    drift: Weights | None = None
    stop_accuracy: float | None = None  # end after the epoch that reaches it on the job's own samples
    patience: int = 0  # end after so many epochs without a lower loss on the job's own samples; 0: do not
    each_epoch: bool = False  # return the weights after each epoch, too
    objective: Objective = CrossEntropy()  # noqa: RUF009 - it has no state
    fl_round: int = 0  # as the objective sees it
    teacher: Weights | None = None  # the global model, if the objective needs its outputs
    pool: Tensor = torch.zeros(0, dtype=torch.long)  # noqa: RUF009 - positions of samples to mix, if it needs them


@dataclass(frozen=True)
class LocalResult:
    weights: Weights
    steps: int  # SGD steps made; fewer than planned after an early stop
    epochs: tuple[Weights, ...] = ()  # the weights after each epoch, if the job asks for them


@lru_cache  # the same for many clients and rounds
def path_length(rates: tuple[float, ...], momentum: float) -> float:
    """Compute how far these steps move a weight whose gradient is always 1: Σ_t η_t·(1 + m + ... + m^t)."""
    length = velocity = 0.0
    for rate in rates:
        velocity = momentum * velocity + 1.0
        length += rate * velocity
    return length


def train(
    model: Classifier, images: Tensor, normalise: Normalise, recipe: Recipe, job: LocalJob
) -> LocalResult:
    """Run `job`; `images` are all training images, on the model's device."""
    if model.draws:  # from the job's own seed, so that the result does not depend on where and when it runs
        with seed_generators(job.shuffle, images.device):
            return descend(model, images, normalise, recipe, job)
    return descend(model, images, normalise, recipe, job)


def descend(
    model: Classifier, images: Tensor, normalise: Normalise, recipe: Recipe, job: LocalJob
) -> LocalResult:
    device = images.device
    model.load_state_dict(job.start)
    count = len(job.samples)
    if count == 0:
        return LocalResult(job.start, 0)
    parameters = dict(model.named_parameters())
    start = {name: w.detach().clone() for name, w in parameters.items()}
    drift = {name: value.to(device) for name, value in (job.drift or {}).items()}
    velocity = {name: torch.zeros_like(w) for name, w in start.items()}
    labels = job.labels.to(device)
    samples = job.samples.to(device)
    order = shuffled(job.shuffle, job.epochs, count, device)
    keys = draw_keys(job.shuffle, job.epochs, count, device)
    augment = make_augmentation(recipe.augment if normalise.of_images else "none")
    lesson = Lesson(model, images, normalise, recipe.precision, job)

    def ask(who: Classifier) -> Tensor:
        """Return the logits for the job's own samples, of which all may not fit in memory at once."""
        parts = chunks(images, samples)
        return torch.cat([infer(who, images[part], normalise, recipe.precision)[0] for part in parts])

    if job.patience:
        own_loss = OwnLoss(job, ask(model), ask(lesson.teacher) if job.objective.needs_global else None)
    step, epochs = 0, []
    for epoch in range(job.epochs):
        model.train()
        for batch in range(steps_per_epoch(count, recipe.batch_size)):
            cut = slice(batch * recipe.batch_size, (batch + 1) * recipe.batch_size)
            chosen = order[epoch, cut]
            x = normalise(augment(images[samples[chosen]], keys[epoch, cut]))
            with autocast(device, recipe.precision):
                loss = lesson.loss(x, labels[chosen], epoch, cut)
            gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
            with torch.no_grad():
                for (name, w), gradient in zip(parameters.items(), gradients, strict=True):
                    g = gradient.add(w, alpha=recipe.weight_decay)
                    if job.proximal:
                        g += job.proximal * (w - start[name])
                    if drift:
                        g += drift[name]
                    v = velocity[name].mul_(recipe.momentum).add_(g)
                    w.sub_(v, alpha=job.rates[step])
            step += 1
        if job.each_epoch:
            epochs.append(copy_of(model))
        if job.stop_accuracy is not None:
            right = (ask(model).argmax(1) == labels).sum().item()
            if right / len(labels) >= job.stop_accuracy:  # in double precision, as the limit is
                break
        if job.patience and bool(own_loss.is_over(ask(model))):
            break
    return LocalResult(copy_of(model), step, tuple(epochs))


def copy_of(model: Classifier) -> Weights:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
