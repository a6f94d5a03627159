"""Updates that say little about a site: clipped, and covered with Gaussian noise (McMahan et al., ICLR 2018).

    Δ = Θ_k - Θ,    sent is Θ + Δ·min(1, C/‖Δ‖) + N(0, (z·C)²)

Whatever a site's data are, the clipped Δ lies in a ball of radius C, so that another dataset moves it by 2C
at most. One update is ρ-zCDP with ρ = (2C)²/2(zC)² = 2/z², and the ρ of several add up (Bun & Steinke, TCC
2016). Together they are as private as one release with μ = √(2ρ), which is (ε, δ)-differential privacy of
*all* of the site's data for

    δ = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ)            (Balle & Wang, ICML 2018, Theorem 8)

The noise has no seed: somebody could try all seeds, or keep one. Its bits are the operating system's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedactive.federated.weights import Weights

DELTA = 1e-5


class NotFiniteError(ValueError):
    """Numbers that cannot be clipped, so that nothing may be sent."""


@dataclass(frozen=True)
class Cover:
    """How updates are covered; clip = 0: not at all."""

    clip: float = 0.0  # C
    noise: float = 0.0  # z


def clip_and_noise(weights: Weights, origin: Weights, cover: Cover) -> Weights:
    """Move `weights` towards `origin` until they are C away, and add noise that is new at every call.

    BatchNorm's statistics are data of the site like all else. Whole numbers cannot be covered: they are sent
    back as they came. NotFiniteError if the distance is not a finite number.
    """
    moved = {name: w.double() - origin[name].double() for name, w in weights.items() if w.is_floating_point()}
    norm = math.sqrt(sum(step.square().sum().item() for step in moved.values()))
    if not math.isfinite(norm):
        raise NotFiniteError("the update has no finite norm to clip")
    shrink = min(1.0, cover.clip / norm) if norm else 1.0
    private = dict(origin)
    for name, step in moved.items():
        # The noise is added first: what is rounded afterwards is covered already.
        covered = step * shrink + normal_numbers(step.shape) * (cover.noise * cover.clip)
        private[name] = (covered + origin[name].double()).to(origin[name].dtype)
        if name.endswith("running_var"):
            private[name].clamp_(min=0)  # a variance; what is done to a noised value gives nothing away
    require_finite(private.values())
    return private


def require_finite(tensors: Iterable[Tensor]) -> None:
    """NotFiniteError if any of these numbers is infinite or none at all."""
    if not all(torch.isfinite(tensor).all() for tensor in tensors):
        raise NotFiniteError("there are numbers that are not finite")


def normal_numbers(shape: torch.Size) -> Tensor:
    """Draw from N(0, 1): each number by the inverse distribution function, from 52 random bits of its own."""
    from scipy.special import ndtri  # here: most sites cover nothing, and loading SciPy takes a while

    bits = np.frombuffer(os.urandom(8 * shape.numel()), np.uint64) >> np.uint64(12)
    between_0_and_1 = (bits + 0.5) * 2.0**-52  # exact, and never one of the ends
    return torch.from_numpy(ndtri(between_0_and_1)).reshape(shape)


def rho_of(cover: Cover) -> float:
    """ρ of one update; infinite without noise."""
    return 2 / cover.noise**2 if cover.clip and cover.noise else math.inf


def epsilon(rho: float, delta: float = DELTA) -> float:
    """ε of all updates together, given the sum of their ρ."""
    if not 0 < rho < math.inf:
        return rho
    from scipy.optimize import brentq  # here, because few sites need it, and it takes them 30 MB
    from scipy.special import log_ndtr

    mu = math.sqrt(2 * rho)

    def too_private(epsilon: float) -> float:
        likely, unlikely = log_ndtr(mu / 2 - epsilon / mu), log_ndtr(-mu / 2 - epsilon / mu)
        return delta - math.exp(likely) + math.exp(epsilon + unlikely)

    if too_private(0.0) >= 0:
        return 0.0
    enough = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # by zCDP alone, which is never less
    return float(brentq(too_private, 0.0, enough))
