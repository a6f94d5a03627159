"""What every dataset is once it is read: all samples in one tensor, integer labels, names of the classes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedactive.data.own_file import DIGITS, FROM_PYTHON
from fedactive.data.readers import Parts

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Dataset:
    """A labelled dataset with its train and test split. Its samples are images, or features: any vectors."""

    name: str
    train_inputs: Tensor  # images: uint8, (N, channels, height, width); features: float32, (N, d)
    train_labels: Tensor  # int64, (N,)
    test_inputs: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    mean: Numbers  # per channel, of pixels scaled to [0, 1]; empty for features
    std: Numbers
    train_clients: Tensor | None = None  # int64, (N,): who has each sample, if the data say so
    origin: str = ""  # a hash of what it was made of, if that is known: image files, images before a backbone

    @classmethod
    def of_images(
        cls, name: str, parts: Parts, classes: tuple[str, ...], mean: Numbers, std: Numbers
    ) -> Dataset:
        """Make a dataset of what was read from files, by role."""
        read = {role: torch.from_numpy(array) for role, array in parts.items()}
        train, test = ((read[f"{split}_images"], read[f"{split}_labels"]) for split in ("train", "test"))
        return cls(name, train[0], train[1], test[0], test[1], classes, mean, std)

    @classmethod
    def of_samples(
        cls,
        name: str,
        train: Iterable[tuple[Any, Any]],
        test: Iterable[tuple[Any, Any]],
        *,
        classes: Sequence[str] | None = None,
        clients: Sequence[Any] | None = None,
        size: int = 0,
    ) -> Dataset:
        """Make a dataset of pairs (image, label), for `Experiment(dataset=...)`.

        Images are PIL images, arrays (height, width[, 3]) or tensors (channels, height, width); labels count
        from 0. `size` resizes images to squares of that side. `clients` names who has each training sample.
        Samples are read one at a time and kept in the cache, so they need not fit in memory.
        """
        from fedactive.data.from_python import keep

        return keep(name, {"train": train, "test": test}, classes, clients, size)

    @property
    def settings(self) -> dict[str, str]:
        """What an experiment keeps of a dataset that was made in Python: its name and content."""
        return {"dataset": f"{FROM_PYTHON}{self.name}", "dataset_sha256": self.origin[:DIGITS]}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, height, width) of images, (d,) of features."""
        return tuple(self.train_inputs.shape[1:])

    @property
    def fingerprint(self) -> str:
        """A hash of all labels and some samples, which tells datasets apart whatever their names.

        What was made of images counts by these: features of two machines differ by rounding.
        """
        if self.origin:
            return self.origin
        found = hashlib.sha256(repr((self.train_inputs.shape, self.test_inputs.shape)).encode())
        for tensor in (self.train_labels, self.test_labels, self.train_inputs[::97], self.test_inputs[::97]):
            found.update(tensor.cpu().numpy().tobytes())
        return found.hexdigest()

    def to(self, device: torch.device) -> Dataset:
        return replace(
            self,
            train_inputs=self.train_inputs.to(device),
            train_labels=self.train_labels.to(device),
            test_inputs=self.test_inputs.to(device),
            test_labels=self.test_labels.to(device),
        )
