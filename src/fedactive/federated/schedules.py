"""Learning rates. `paper` follows the text of the paper, `reference` the released code.

|             | FL rounds                             | local-only training                               |
|-------------|---------------------------------------|---------------------------------------------------|
| `paper`     | x0.1 at one half and three quarters   | x0.1 at one half and three quarters of the epochs |
| `reference` | x0.1 once, just after three quarters  | x0.1 once, after 37 (of 50) *batches*, not epochs |
"""

from __future__ import annotations

DECAY = 0.1


def fl_rate(schedule: str, rate: float, fl_round: int, fl_rounds: int) -> float:
    """Return the learning rate of FL round `fl_round`, counted from 0."""
    if schedule == "paper":
        return rate * DECAY ** sum(fl_round >= m for m in milestones(fl_rounds))
    return rate * DECAY ** (fl_round > fl_rounds * 3 // 4)


def local_only_rates(schedule: str, rate: float, epochs: int, steps_per_epoch: int) -> tuple[float, ...]:
    """Return the learning rate of each step of local-only training."""
    steps = range(epochs * steps_per_epoch)
    half, three_quarters = milestones(epochs)
    if schedule == "paper":
        ends = (half * steps_per_epoch, three_quarters * steps_per_epoch)
        return tuple(rate * DECAY ** sum(step >= end for end in ends) for step in steps)
    return tuple(rate * DECAY ** (step >= three_quarters) for step in steps)


def milestones(length: int) -> tuple[int, int]:
    """Return one half and three quarters of a length, but at least 1."""
    return max(1, length // 2), max(1, length * 3 // 4)
