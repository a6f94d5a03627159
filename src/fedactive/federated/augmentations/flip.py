"""Mirror every other image left to right."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from fedactive.federated.augmentation import Augmentation, register


@final
@register
class Flip(Augmentation):
    name = "flip"
    summary = "mirrors images left to right, each with probability 1/2"
    paper = "the paper's"

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        """Mirror the images whose key is below 0; the GPU's kernel does the same."""
        return torch.where(keys.lt(0)[:, None, None, None], images.flip(-1), images)
