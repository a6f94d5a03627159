"""The federated algorithms by name."""

from fedactive.federated.algorithm import Algorithm
from fedactive.federated.fedavg import FedAvg
from fedactive.federated.fedprox import FedProx
from fedactive.federated.scaffold import Scaffold

ALGORITHMS = ("fedavg", "fedprox", "scaffold")

__all__ = ["ALGORITHMS", "Algorithm", "make_algorithm"]


def make_algorithm(name: str, mu: float) -> Algorithm:
    return {"fedavg": FedAvg(), "fedprox": FedProx(mu), "scaffold": Scaffold()}[name]
