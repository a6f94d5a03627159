"""Shift images by up to an eighth of their sides: a crop of the image with a black margin around it."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from fedactive.federated.augmentation import Augmentation, integers, register


@final
@register
class Crop(Augmentation):
    name = "crop"
    summary = "crops images at a random place, after padding with black by 1/8 of each side"
    paper = "He et al., CVPR 2016"

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        height, width = images.shape[2:]
        rows, rows_inside = shifted(height, integers(keys, 2 * margin(height) + 1, "crop: rows"))
        columns, columns_inside = shifted(width, integers(keys, 2 * margin(width) + 1, "crop: columns"))
        image, channel = (torch.arange(count, device=images.device) for count in images.shape[:2])
        moved = images[
            image[:, None, None, None], channel[:, None, None], rows[:, None, :, None], columns[:, None, None]
        ]
        inside = rows_inside[:, None, :, None] & columns_inside[:, None, None]
        return torch.where(inside, moved, torch.zeros_like(moved))


def margin(side: int) -> int:
    """Return how many pixels are added on either side: 4 to a side of 32."""
    return max(1, side // 8)


def shifted(side: int, place: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions (n, side) at which crops at these places read, and which lie in the image."""
    at = torch.arange(side, device=place.device) + place[:, None] - margin(side)
    return at.clamp(0, side - 1), (at >= 0) & (at < side)
