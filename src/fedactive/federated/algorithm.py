"""What a federated algorithm is: pure functions with explicit state, on the server and on the client.

One FL round, for the server's state s and each participating client's own state c_k:

    terms_k      = algorithm.terms(s, c_k)                      what the client adds to its gradient
    result_k     = local SGD from s.weights with terms_k
    c_k, update  = algorithm.client_end(s, c_k, path_k, n_k)    the update is all that travels
    s            = algorithm.server_end(s, updates, clients)

What an algorithm remembers on server and clients, and what its updates carry beside the weights, are groups
of named tensors (`State`). Only the algorithm looks into them; checkpoints, device moves, the wire format and
the checks between sites follow from the names and shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from fedactive.federated.weights import Weights, to_device
from fedactive.registry import ALGORITHMS

State = dict[str, Weights]  # groups of tensors that an algorithm names: {"control": {"head.weight": ...}}

register = ALGORITHMS.register


@dataclass(frozen=True)
class Server:
    """The server's state: the global model, and what the algorithm remembers."""

    weights: Weights  # Θ: parameters and buffers
    parameters: tuple[str, ...] = ()  # the names of the weights that SGD moves
    state: State = field(default_factory=dict)  # the algorithm's own

    def to(self, device: torch.device) -> Server:
        return replace(
            self, weights=to_device(self.weights, device), state=state_to_device(self.state, device)
        )


@dataclass(frozen=True)
class Terms:
    """What a client adds to its gradient: μ of the proximal term, and a constant drift."""

    proximal: float = 0.0
    drift: Weights | None = None


@dataclass(frozen=True)
class Trajectory:
    """A client's local training as algorithms see it: where it ended and how far it could go."""

    weights: Weights  # Θ_k
    length: float  # how far a constant gradient of 1 would have moved a weight


@dataclass(frozen=True)
class Update:
    """What a client sends after local training."""

    samples: int  # |D_k|
    weights: Weights
    state: State = field(default_factory=dict)  # what the algorithm sends beside the weights

    def to(self, device: torch.device) -> Update:
        return replace(
            self, weights=to_device(self.weights, device), state=state_to_device(self.state, device)
        )


class Algorithm(ABC):
    """A federated algorithm. Abstract; the algorithms are final, and their options are made with `option`."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive algorithms`
    paper: ClassVar[str]

    models: ClassVar[tuple[str, ...]] = ()  # the models that it trains; by default any
    steps: ClassVar[bool] = True  # do clients train by steps, so that there are models of local training?
    objectives: ClassVar[tuple[str, ...]] = ()  # that clients may train with; by default any
    fl_rounds: ClassVar[int | None] = None  # that it needs in an AL round; by default as many as were chosen

    # --- at the beginning of an AL round

    def start(self, weights: Weights, parameters: Sequence[str]) -> State:
        """Make the server's own state; `parameters` are the names that SGD moves."""
        return {}

    def client_start(self, server: Server) -> State:
        """Make a client's own state; `server` is what the client was sent."""
        return {}

    # --- in each FL round

    def broadcast(self, server: Server) -> State:
        """Choose what part of the server's state clients are sent along with the weights."""
        return {}

    def terms(self, server: Server, own: State) -> Terms:
        """Return what a client adds to its gradient."""
        return Terms()

    def client_end(
        self, server: Server, own: State, trajectory: Trajectory, samples: int
    ) -> tuple[State, Update]:
        """Return a client's new state and its update."""
        return own, Update(samples, trajectory.weights)

    @abstractmethod
    def server_end(self, server: Server, updates: Sequence[Update], clients: int) -> Server:
        """Return the server after one FL round; `clients` also counts those that did not take part."""

    # --- the same for all algorithms

    def start_server(self, weights: Weights, parameters: Sequence[str]) -> Server:
        return Server(weights, tuple(parameters), self.start(weights, parameters))

    def client_view(self, server: Server) -> Server:
        """Return the server as clients see it."""
        return replace(server, state=self.broadcast(server))

    def example_update(self, server: Server) -> Update:
        """Make an update of the form that clients send, to compare theirs with."""
        seen = self.client_view(server)
        return self.client_end(seen, self.client_start(seen), Trajectory(server.weights, 1.0), 1)[1]


def sends_more_than_weights(algorithm: Algorithm) -> bool:
    """Return whether updates carry state; clipping and noise, which cover weights, would not cover it."""
    weights = {"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)}  # which every model has
    server = algorithm.start_server(weights, list(weights))
    return bool(algorithm.example_update(server).state)


def state_to_device(state: State, device: torch.device) -> State:
    return {group: to_device(tensors, device) for group, tensors in state.items()}


def as_control_group(control: Weights) -> State:
    """Return SCAFFOLD's variates as the group of a state; version 0.1 kept them as the state itself."""
    return {"control": control} if control else {}


def make_algorithm(name: str, options: str = "") -> Algorithm:
    algorithm: Algorithm = ALGORITHMS.make(name, options)
    return algorithm
