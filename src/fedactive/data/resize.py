"""Resize images: bilinear, and smoothed when they shrink, so that fine patterns do not turn into others."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def resize(images: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Resize uint8 images (n, channels, height, width) to squares of that side, or to (height, width)."""
    sides = (size, size) if isinstance(size, int) else size
    if images.shape[2:] == sides:
        return images
    pixels = images if images.device.type == "cpu" else images.float()  # GPUs resize no integers
    return F.interpolate(pixels, sides, mode="bilinear", antialias=True).round().to(images.dtype)
