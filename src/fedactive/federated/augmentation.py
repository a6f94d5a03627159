"""How training images are varied: a pure function of images and of one random integer for each of them.

The integers, called keys, are hashed from a job's seed, the epoch and the place in the order, so that all
engines draw the same. Joined by +, augmentations are applied in the order in which they are named, each with
the same keys; `integers` makes independent numbers of them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from fedactive.errors import UserError
from fedactive.federated.batches import mix, shift_right
from fedactive.registry import AUGMENTATIONS, split_names

Augment: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"

register = AUGMENTATIONS.register


class Augmentation(ABC):
    """Abstract; a final class has no state. It is called for a batch, on the device where the images are."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive augmentations`
    paper: ClassVar[str]

    @abstractmethod
    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        """Return varied images of the same shape and type: uint8, (n, channels, height, width).

        `keys` are int64, (n,). What becomes of an image depends on itself and its key alone. On a GPU the
        operations are recorded once and repeated, so values must not be read on the host, as item() does.
        """


def integers(keys: Tensor, below: int, stream: str) -> Tensor:
    """Draw for each key a whole number from 0 to below - 1; another `stream` gives independent numbers."""
    return shift_right(mix(keys ^ number_of(stream)), 33) % below


@cache
def number_of(stream: str) -> int:
    return int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big", signed=True)


def make_augmentation(names: str) -> Augment:
    """Make the function that applies these augmentations, as in flip+crop, one after another."""
    steps = [AUGMENTATIONS.make(name) for name in split_names(names)]

    def augment(images: Tensor, keys: Tensor) -> Tensor:
        for step in steps:
            images = step(images, keys)
        return images

    return augment


def check_augmentation(name: str, input_shape: tuple[int, ...] = (3, 8, 8)) -> None:
    """Raise UserError, with the reason, for an augmentation that engines cannot use alike."""
    augmentation: Augmentation = AUGMENTATIONS.make(name)
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, *input_shape), dtype=torch.uint8, generator=rng)
    keys = torch.randint(-(2**62), 2**62, (6,), generator=rng)
    given, before = images.clone(), torch.random.get_rng_state()

    def refuse(reason: str) -> UserError:
        return UserError(f"augmentation {name}: {reason}")

    found = augmentation(given, keys)
    if found.shape != images.shape or found.dtype != images.dtype:
        shape = f"{found.dtype} {tuple(found.shape)}"
        raise refuse(f"it makes {shape} of {images.dtype} {tuple(images.shape)}, which should stay")
    if not torch.equal(given, images):
        raise refuse("it changes the images that it is given; return new ones")
    again = augmentation(images, keys)
    if not torch.equal(found, again) or not torch.equal(before, torch.random.get_rng_state()):
        raise refuse("two calls differ; draw by `integers` from the keys alone")
    if not torch.equal(found[3:], augmentation(images[3:], keys[3:])):
        raise refuse("what it makes of an image depends on the others of the batch")
    try:
        augmentation(images.to("meta"), keys.to("meta"))
    except Exception as error:  # whatever operation asks for a value
        reason = " ".join(str(error).split())
        raise refuse(f"it reads values of tensors, which a GPU cannot record ({reason})") from error
