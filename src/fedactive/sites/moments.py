"""Standardise features between sites without showing any: by their sums, and the sums of their squares.

    mean = Σ sum_k / Σ n_k        std² = Σ squares_k / Σ n_k - mean²

These are the mean and deviation over all images of all sites, which the laboratory has, too. The sums of a
few images say much about each, so a site with fewer than FEWEST leaves its own out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedactive.data.own_features import Standardisation, by_moments

FEWEST = 5
AT_A_TIME = 4096  # rows in double precision


@dataclass(frozen=True)
class Moments:
    """Of the features of one site's images."""

    images: int  # 0 if the site left its sums out
    sums: Tensor  # float64, (d,)
    squares: Tensor


def moments_of(features: Tensor) -> Moments:
    """Add up features (n, d)."""
    counted = features[: len(features) if len(features) >= FEWEST else 0]
    sums = torch.zeros(features.shape[1], dtype=torch.float64)
    squares = sums.clone()
    for part in counted.split(AT_A_TIME):
        sums += part.double().sum(0)
        squares += part.double().square().sum(0)
    return Moments(len(counted), sums, squares)


def standardisation_of(sites: Sequence[Moments]) -> Standardisation:
    """Say how features are standardised, given the sums of all sites."""
    images = sum(site.images for site in sites)
    mean = sum(site.sums for site in sites).numpy() / images  # type: ignore[union-attr]
    variance = sum(site.squares for site in sites).numpy() / images - mean**2  # type: ignore[union-attr]
    return by_moments(mean, np.sqrt(variance.clip(min=0)))


def to_text(how: Standardisation) -> str:
    """Write both rows as text, which fits into the settings of a message."""
    return b64encode(torch.stack(tuple(how)).numpy().astype("<f4").tobytes()).decode()


def from_text(text: str) -> Standardisation:
    """Read what `to_text` wrote; ValueError if it is something else."""
    numbers = torch.from_numpy(np.frombuffer(b64decode(text, validate=True), "<f4").astype(np.float32))
    if not len(numbers) or len(numbers) % 2 or not numbers.isfinite().all():
        raise ValueError("a standardisation is two rows of finite numbers")
    return Standardisation(*numbers.reshape(2, -1))
