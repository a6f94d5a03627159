"""The labelling budget: how many labels each client may ask for in each AL round."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fedactive.errors import ConfigurationError

PER_CLIENT = "/client"

# Percent of all samples, shared equally; or labels of each client, "10/client", by AL round "5+5+10/client".
Budget = float | str


def budgets_per_client(samples: int, clients: int, budget: Budget) -> tuple[int, ...]:
    """Return B, the labels of each client, in each AL round; the last one is that of all later rounds.

    Of percent it is int(round(N, -2)·q/K), the paper's rounding: CIFAR-10 250, SVHN 366, DermaMNIST 35 at 5%.
    """
    if isinstance(budget, str):
        return numbers_of(budget)
    exact = Fraction(str(budget))  # the decimal as it was written: 2.3 in binary is a little less
    labels = int(round(samples, -2) * exact / (100 * clients))
    if labels < 1:
        allowed = (
            f"enough for one label per client ({samples} samples, rounded to hundreds, {clients} clients), "
            f"or a number of labels as in 1{PER_CLIENT}"
        )
        raise ConfigurationError("budget", budget, allowed)
    return (labels,)


def numbers_of(budget: str) -> tuple[int, ...]:
    """Return the numbers of 5+5+10/client."""
    return tuple(map(int, budget.removesuffix(PER_CLIENT).split("+")))


def shortest(budget: str) -> str:
    """Leave out numbers at the end that repeat the one before: equal budgets are written alike."""
    numbers = list(numbers_of(budget))
    while numbers[-2:] == numbers[-1:] * 2:
        numbers.pop()
    return "+".join(map(str, numbers)) + PER_CLIENT


def budget_in(budgets: Sequence[int], al_round: int) -> int:
    """Return the labels of each client in this AL round, counted from 1."""
    return budgets[min(al_round, len(budgets)) - 1]


def budget_until(budgets: Sequence[int], al_round: int) -> int:
    """Return the labels of each client in all AL rounds up to this one."""
    return sum(budget_in(budgets, r) for r in range(1, al_round + 1))
