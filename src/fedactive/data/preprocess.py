"""Turn what a dataset holds into network inputs, a batch at a time on the device where it is."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Normalise:
    """(x / 255 - mean) / std per channel.

    Features are left as they are: they were standardised when they were read.
    """

    def __init__(
        self, input_shape: Sequence[int], mean: Sequence[float], std: Sequence[float], device: torch.device
    ) -> None:
        self.of_images = len(input_shape) == 3
        m, s = (torch.tensor(v, dtype=torch.float32, device=device).view(1, -1, 1, 1) for v in (mean, std))
        self.scale, self.shift = 1 / (255 * s), -m / s

    def __call__(self, inputs: Tensor) -> Tensor:
        if not self.of_images:
            return inputs
        # Channels last is the layout in which convolutions run fastest, on CPUs and GPUs alike.
        return torch.addcmul(self.shift, inputs.float(), self.scale).contiguous(
            memory_format=torch.channels_last
        )
