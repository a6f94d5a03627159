"""What every dataset is once it is read: uint8 images in one tensor, integer labels, names of the classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Dataset:
    """A labelled image dataset with its official train and test split."""

    name: str
    train_images: Tensor  # uint8, (N, channels, height, width)
    train_labels: Tensor  # int64, (N,)
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, ...]  # per channel, of pixels scaled to [0, 1]
    std: tuple[float, ...]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    @property
    def fingerprint(self) -> str:
        """A hash of all labels and some images, which tells datasets apart whatever their names."""
        found = hashlib.sha256(repr((self.train_images.shape, self.test_images.shape)).encode())
        for tensor in (self.train_labels, self.test_labels, self.train_images[::97], self.test_images[::97]):
            found.update(tensor.cpu().numpy().tobytes())
        return found.hexdigest()

    def to(self, device: torch.device) -> Dataset:
        return replace(
            self,
            train_images=self.train_images.to(device),
            train_labels=self.train_labels.to(device),
            test_images=self.test_images.to(device),
            test_labels=self.test_labels.to(device),
        )
