"""Turn uint8 pixels into network inputs, a batch at a time on the device where the images are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Normalise:
    """(x / 255 - mean) / std per channel, with some images of the batch mirrored left to right first."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        m, s = (torch.tensor(v, dtype=torch.float32, device=device).view(1, -1, 1, 1) for v in (mean, std))
        self.scale, self.shift = 1 / (255 * s), -m / s

    def __call__(self, pixels: Tensor, flip: Tensor | None = None) -> Tensor:
        if flip is not None:
            pixels = torch.where(flip[:, None, None, None], pixels.flip(-1), pixels)
        # Channels last is the layout in which convolutions run fastest, on CPUs and GPUs alike.
        return torch.addcmul(self.shift, pixels.float(), self.scale).contiguous(
            memory_format=torch.channels_last
        )
