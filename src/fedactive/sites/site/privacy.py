"""Updates that say little about a site: clipped, and covered with Gaussian noise (McMahan et al., ICLR 2018).

    Δ = Θ_k - Θ,    sent is Θ + Δ·min(1, C/‖Δ‖) + N(0, (z·C)²)

Whatever a site's data are, Δ then lies in a ball of radius C, so that another dataset moves it by 2C at most.
One update is ρ-zCDP with ρ = (2C)²/2(zC)² = 2/z², the ρ of several add up, and that is (ε, δ)-differential
privacy of *all* of the site's data with ε = ρ + 2√(ρ·ln(1/δ)) (Bun & Steinke, TCC 2016).

The noise has no seed: somebody could try all seeds, or keep one. Its bits are the operating system's.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from fedactive.federated.weights import Weights

DELTA = 1e-5


@dataclass(frozen=True)
class Cover:
    """How updates are covered; clip = 0: not at all."""

    clip: float = 0.0  # C
    noise: float = 0.0  # z


def clip_and_noise(weights: Weights, origin: Weights, cover: Cover) -> Weights:
    """Move `weights` towards `origin` until they are C away, and add noise that is new at every call.

    BatchNorm's statistics are data of the site like all else; only its counter of batches is left alone.
    """
    moved = {name: w - origin[name] for name, w in weights.items() if w.is_floating_point()}
    norm = math.sqrt(sum(step.double().square().sum().item() for step in moved.values()))
    shrink = min(1.0, cover.clip / norm) if norm else 1.0
    private = dict(weights)
    for name, step in moved.items():
        noise = normal_numbers(step.shape) * (cover.noise * cover.clip)
        private[name] = origin[name] + step * shrink + noise.to(step.dtype)
        if name.endswith("running_var"):
            private[name].clamp_(min=0)  # a variance; what is done to a noised value gives nothing away
    return private


def normal_numbers(shape: torch.Size) -> Tensor:
    """Draw from N(0, 1): each number by the inverse distribution function, from 52 random bits of its own."""
    bits = np.frombuffer(os.urandom(8 * shape.numel()), np.uint64) >> np.uint64(12)
    between_0_and_1 = (bits + 0.5) * 2.0**-52  # exact, and never one of the ends
    return torch.from_numpy(ndtri(between_0_and_1)).reshape(shape)


def rho_of(cover: Cover) -> float:
    """ρ of one update; infinite without noise."""
    return 2 / cover.noise**2 if cover.clip and cover.noise else math.inf


def epsilon(rho: float, delta: float = DELTA) -> float:
    """ε of all updates together, given the sum of their ρ."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))
