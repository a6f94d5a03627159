"""Pixels become inputs by the mean and deviation of each channel."""

from __future__ import annotations

import pytest
import torch

from fedactive.data.preprocess import Normalise

PIXELS = torch.arange(2 * 3 * 4 * 5, dtype=torch.uint8).view(2, 3, 4, 5)
MEAN, STD = (0.1, 0.5, 0.7), (0.2, 0.3, 0.4)


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    planes = [(pixels[:, c] / 255 - m) / s for c, (m, s) in enumerate(zip(MEAN, STD, strict=True))]
    return torch.stack(planes, dim=1)


def test_every_channel_has_its_own_mean_and_deviation():
    inputs = Normalise(PIXELS.shape[1:], MEAN, STD, torch.device("cpu"))(PIXELS)
    assert inputs.dtype == torch.float32
    assert inputs.numpy() == pytest.approx(normalised(PIXELS).numpy(), abs=1e-6)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
