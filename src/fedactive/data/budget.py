"""The labelling budget: how many labels each client may ask for in an AL round."""

from __future__ import annotations

from fractions import Fraction

from fedactive.errors import ConfigurationError

PER_CLIENT = "/client"

Budget = float | str  # percent of all samples, shared equally; or "10/client", labels of each client


def budget_per_client(samples: int, clients: int, budget: Budget) -> int:
    """Return B, the labels of each client.

    Of percent it is int(round(N, -2)·q/K), the paper's rounding: CIFAR-10 250, SVHN 366, DermaMNIST 35 at 5%.
    """
    if isinstance(budget, str):
        return int(budget.removesuffix(PER_CLIENT))
    exact = Fraction(str(budget))  # the decimal as it was written: 2.3 in binary is a little less
    labels = int(round(samples, -2) * exact / (100 * clients))
    if labels < 1:
        allowed = (
            f"enough for one label per client ({samples} samples, rounded to hundreds, {clients} clients), "
            f"or a number of labels as in 1{PER_CLIENT}"
        )
        raise ConfigurationError("budget", budget, allowed)
    return labels
