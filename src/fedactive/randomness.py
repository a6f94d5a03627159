"""Named random generators, all derived from the run's seed.

No generator is ever shared or carried along: each purpose (and round, and client) has its own, made afresh
from the seed and the purpose's name. Two strategies with the same seed therefore share partition, first
labels and initial weights, and a run that was killed resumes with the same draws, with no generator to save.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Randomness:
    """The source of all randomness in one run: `randomness.torch("first labels", client)`."""

    seed: int

    def integer(self, *purpose: str | int) -> int:
        """Return a 63-bit integer that depends on the seed and the purpose alone."""
        text = "/".join(map(str, (self.seed, *purpose)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1

    def torch(self, *purpose: str | int) -> torch.Generator:
        return torch.Generator().manual_seed(self.integer(*purpose))

    def numpy(self, *purpose: str | int) -> np.random.Generator:
        return np.random.default_rng(self.integer(*purpose))
