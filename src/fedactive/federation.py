"""What the loop needs of a federation: the clients, wherever they are, seen from the server.

`Simulation` has all clients in this process. Between real sites the same calls become messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from fedactive.evaluation import Evaluation
from fedactive.federated.algorithm import Server, State, Update
from fedactive.federated.weights import Weights


@dataclass(frozen=True)
class Query:
    """One client's request for labels: which of its samples, and the strategy's score of each."""

    client: int
    samples: Tensor
    scores: Tensor


# The names, in a run's records, of what a query takes time for; evaluations are for us, not for the query.
LOCAL_ONLY_TRAINING, SCORING, SELECTION = QUERY_PHASES = ("local-only training", "scoring", "selection")


@dataclass(frozen=True)
class QueryPhase:
    """All clients' queries of an AL round, with what was learnt on the way."""

    queries: list[Query]
    local_only: list[Evaluation] = field(default_factory=list)  # the clients' local-only models, if trained
    seconds: dict[str, float] = field(default_factory=dict)  # by phase


class Federation(Protocol):
    clients: int

    def query(self, al_round: int, weights: Weights | None) -> QueryPhase:
        """Each client chooses what to have labelled; `weights` is the global model, None in round 1."""

    def label(self, queries: Sequence[Query]) -> list[Tensor]:
        """Have these samples labelled: D_k grows, U_k shrinks. The labels, as far as the server may know."""

    def labelled(self) -> list[int]:
        """|D_k| of each client."""

    def start_training(self, al_round: int, weights: Weights | None) -> Server:
        """The server's state before the first FL round: fresh weights, or `weights` to continue from."""

    def train(
        self, server: Server, al_round: int, fl_round: int, participants: Sequence[int]
    ) -> list[Update]:
        """One FL round of local training on these clients."""

    def evaluate(self, weights: Weights, al_round: int, fl_round: int) -> Evaluation | None:
        """The global model after this FL round on the test set; None where it is not measured."""

    def snapshot(self) -> list[State]:
        """The algorithm's state on each client, for the checkpoint."""

    def restore(self, server: Server, snapshot: list[State]) -> Server:
        """Go on from a checkpoint; the server's state comes back where the clients train."""
