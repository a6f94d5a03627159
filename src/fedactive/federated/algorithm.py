"""What a federated algorithm is: pure functions with explicit state, on the server and on the client.

One FL round, for the server's state s and each participating client's own state c_k:

    terms_k      = algorithm.terms(s, c_k)                      what the client adds to its gradient
    result_k     = local SGD from s.weights with terms_k
    c_k, update  = algorithm.client_end(s, c_k, path_k, n_k)    the update is all that travels
    s            = algorithm.server_end(s, updates, clients)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedactive.federated.weights import Weights


@dataclass(frozen=True)
class Server:
    weights: Weights  # Θ
    control: Weights = field(default_factory=dict)  # SCAFFOLD's c; empty elsewhere


@dataclass(frozen=True)
class Terms:
    """μ of the proximal term and a constant drift, both added to the gradient."""

    proximal: float = 0.0
    drift: Weights | None = None


@dataclass(frozen=True)
class Trajectory:
    """A client's local training as the server's formulas see it: where it ended and how far it could go."""

    weights: Weights  # Θ_k
    length: float  # by how much a constant unit gradient would have moved a weight


@dataclass(frozen=True)
class Update:
    samples: int  # |D_k|
    weights: Weights
    control: Weights = field(default_factory=dict)


class Algorithm(ABC):
    """Abstract; the algorithms themselves are final."""

    def start(self, weights: Weights, parameters: Sequence[str]) -> Server:
        """The server's state at the beginning of an AL round; `parameters` are the names SGD moves."""
        return Server(weights)

    def client_start(self, server: Server) -> Weights:
        """A client's own state at the beginning of an AL round."""
        return {}

    @abstractmethod
    def terms(self, server: Server, own: Weights) -> Terms: ...

    def client_end(
        self, server: Server, own: Weights, trajectory: Trajectory, samples: int
    ) -> tuple[Weights, Update]:
        return own, Update(samples, trajectory.weights)

    @abstractmethod
    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server: ...
