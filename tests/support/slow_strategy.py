"""A plugin: `random`, but slow, so that a test can do something in the meantime."""

import time
from dataclasses import dataclass

from fedactive.query import STRATEGIES, register


@register
@dataclass(frozen=True)
class Slow(STRATEGIES["random"]):
    name = "slow"

    def select(self, pool, budget, rng):
        time.sleep(0.15)
        return super().select(pool, budget, rng)
