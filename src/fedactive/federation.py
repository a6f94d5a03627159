"""What the loop needs of a federation: the clients, wherever they are, seen from the server.

`Simulation` holds all clients in this process. Between real sites the same calls become messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, State, Update
from fedactive.federated.weights import Weights
from fedactive.memory import Memory


@dataclass(frozen=True)
class Kept:
    """What one client keeps from one FL round to the next."""

    own: State = field(default_factory=dict)  # the federated algorithm's
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True)
class Query:
    """One client's request for labels: which of its samples, and the strategy's score of each."""

    client: int
    samples: Tensor
    scores: Tensor


# The phases of a query, as a run's records name them. Evaluations are not part of the query.
LOCAL_ONLY_TRAINING, SCORING, SELECTION = QUERY_PHASES = ("local-only training", "scoring", "selection")


@dataclass(frozen=True)
class QueryPhase:
    """All clients' queries of an AL round, with what was measured on the way."""

    queries: list[Query]
    local_only: list[Evaluation] = field(default_factory=list)  # the clients' local-only models, if trained
    seconds: dict[str, float] = field(default_factory=dict)  # by phase
    agreed: list[float] | None = None  # the mean of what clients say of themselves, if it stays as it is


def average(told: Iterable[list[float] | None]) -> list[float] | None:
    """Compute the mean of clients' numbers, each client with the same weight; None if nobody has any."""
    known = [numbers for numbers in told if numbers is not None]
    return [math.fsum(column) / len(known) for column in zip(*known, strict=True)] if known else None


class Federation(Protocol):
    """The clients as the loop calls them."""

    clients: int

    def query(self, al_round: int, weights: Weights | None, agreed: list[float] | None = None) -> QueryPhase:
        """Let each client choose samples to label; `weights` is the global model, None in round 1.

        `agreed` is the mean of what clients said of themselves, None as long as they were not asked.
        """

    def label(self, queries: Sequence[Query]) -> list[Tensor]:
        """Have these samples labelled: D_k grows, U_k shrinks. Return the labels that the server may know."""

    def labelled(self) -> list[int]:
        """Return |D_k| of each client."""

    def start_training(self, al_round: int, weights: Weights | None) -> Server:
        """Make the server's state for the first FL round, with fresh weights or from `weights`."""

    def train(
        self, server: Server, al_round: int, fl_round: int, participants: Sequence[int]
    ) -> list[Update]:
        """Train these clients locally for one FL round."""

    def evaluate(self, server: Server, al_round: int, fl_round: int) -> tuple[Server, Evaluation | None]:
        """Evaluate the global model after this FL round on the test set; None where it is not measured.

        Return the server to go on from: this one, or an earlier one if the model turns out to be ruined.
        """

    def snapshot(self) -> list[Kept]:
        """Return what each client keeps from one FL round to the next, for the checkpoint."""

    def restore(self, server: Server, snapshot: list[Kept]) -> Server:
        """Go on from a checkpoint; return the server's state on the device where the clients train."""
