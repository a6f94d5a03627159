"""The labelling budget: how many labels each client may ask for in an AL round."""

from __future__ import annotations

from fractions import Fraction

from fedactive.errors import ConfigurationError


def budget_per_client(samples: int, clients: int, percent: float) -> int:
    """Return B = int(round(N, -2)·q/K), the paper's rounding: CIFAR-10 250, SVHN 366, DermaMNIST 35 at 5%."""
    exact = Fraction(str(percent))  # the decimal as it was written: 2.3 in binary is a little less
    budget = int(round(samples, -2) * exact / (100 * clients))
    if budget < 1:
        allowed = (
            f"enough for one label per client ({samples} samples, rounded to hundreds, {clients} clients)"
        )
        raise ConfigurationError("budget", percent, allowed)
    return budget
