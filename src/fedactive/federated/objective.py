"""What a client trains with: a pure function of what it knows about a batch.

    ℓ = mean of `losses` over the batch's labelled images + mean of `mixed_losses` over its mixed images

An objective says what it needs: the global model's outputs on the labelled images, or images of the client's
pool, mixed in pairs. Only what is declared is computed. Nothing of it leaves the client.

An engine that trains many clients at once calls these functions for all of them under `torch.func.vmap`, or
records them once and runs them again at every step. So they are made of tensor operations alone: no `if` on a
value, and `fl_round` is a tensor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor

from fedactive.errors import UserError
from fedactive.registry import OBJECTIVES

register = OBJECTIVES.register


class Labelled(NamedTuple):
    """What a client knows of n labelled images; C is the number of classes."""

    logits: Tensor  # z: (n, C) in float32, of the model that is trained
    labels: Tensor  # y: (n,)
    counts: Tensor  # n_c: (C,) in float32, its labels by class; at least one of them
    fl_round: Tensor  # t: one number in float32, 0 in the first FL round of an AL round
    global_logits: Tensor | None  # z_g: (n, C), of the model that the server sent, if needed


class Mixed(NamedTuple):
    """What a client knows of n images x~ = β·x + (1 - β)·x' that are mixed from its pool."""

    logits: Tensor  # z: (n, C), of the model that is trained
    global_logits: Tensor  # z_g: (n, C), of the model that the server sent
    share: Tensor  # β: (n,), drawn from Beta(2, 2)
    first: Tensor  # (n,): the class that the server's model predicts for x
    second: Tensor  # (n,): and for x'
    counts: Tensor  # n_c: (C,)
    fl_round: Tensor  # t


class Objective(ABC):
    """An objective. Abstract; the objectives are final, and their options are made with `option`."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive objectives`
    paper: ClassVar[str]

    needs_global: ClassVar[bool] = False  # the global model's outputs on the labelled images?
    needs_mixed: ClassVar[bool] = False  # mixed images of the pool, and the global model's outputs on them?

    @abstractmethod
    def losses(self, known: Labelled) -> Tensor:
        """Return the loss of each labelled image (n,)."""

    def mixed_losses(self, known: Mixed) -> Tensor:
        """Return the loss of each mixed image (n,); only called if `needs_mixed`."""
        raise UserError(f"objective {self.name} needs mixed images and has no mixed_losses")


def require_sound(objective: Objective) -> None:
    """Refuse one that lacks a loss, or does not equal another with the same options, as engines need."""
    if "__dataclass_params__" not in vars(type(objective)) or type(objective).__hash__ is None:
        raise UserError(f"objective {objective.name} must be a class with @dataclass(frozen=True) above it")
    if objective.needs_mixed and type(objective).mixed_losses is Objective.mixed_losses:
        raise UserError(f"objective {objective.name} needs mixed images and has no mixed_losses")


OBJECTIVES.validate = require_sound


def make_objective(name: str, options: str = "") -> Objective:
    objective: Objective = OBJECTIVES.make(name, options)
    return objective
