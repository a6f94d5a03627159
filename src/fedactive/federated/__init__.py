"""The federated algorithms by name."""

from collections.abc import Callable

from fedactive.federated.algorithm import Algorithm
from fedactive.federated.algorithms.fedavg import FedAvg
from fedactive.federated.algorithms.fedprox import FedProx
from fedactive.federated.algorithms.scaffold import Scaffold

ALGORITHMS: dict[str, Callable[[float], Algorithm]] = {  # of mu, for whom it concerns
    "fedavg": lambda mu: FedAvg(),
    "fedprox": FedProx,
    "scaffold": lambda mu: Scaffold(),
}

__all__ = ["ALGORITHMS", "Algorithm", "make_algorithm"]


def make_algorithm(name: str, mu: float) -> Algorithm:
    return ALGORITHMS[name](mu)
