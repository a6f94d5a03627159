"""Everything a run has decided so far: where it is, the models, the queries and the measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedactive.evaluation import Evaluation
from fedactive.experiment import LAST_FL_ROUNDS
from fedactive.federated.algorithm import Server, as_control_group, state_to_device
from fedactive.federated.algorithm import State as AlgorithmState
from fedactive.federation import Kept, Query, QueryPhase
from fedactive.memory import Memory, to_device
from fedactive.record.schema import METRICS, measure, metrics_columns


@dataclass
class State:
    al_round: int = 1  # the AL round that is going on, counted from 1
    fl_round: int = 0  # FL rounds of it that are done
    server: Server | None = None
    clients: list[Kept] = field(default_factory=list)
    agreed: list[float] | None = None  # the mean of what clients said of themselves, from then on
    queries: list[tuple[int, Query, Tensor]] = field(default_factory=list)  # AL round, query, its labels
    evaluations: list[dict[str, Any]] = field(default_factory=list)  # rows of metrics.parquet
    seconds: dict[tuple[int, str], float] = field(default_factory=dict)

    # --- what the loop writes

    def add_queries(self, al_round: int, phase: QueryPhase, labels: Sequence[Tensor]) -> None:
        self.queries += [(al_round, query, y) for query, y in zip(phase.queries, labels, strict=True)]
        # Local-only models are trained on the labels of the round before.
        for client, evaluation in enumerate(phase.local_only):
            self.evaluations.append(
                {"al_round": al_round - 1, "model": "local", "client": client, **measure(evaluation)}
            )
        self.add_seconds(al_round, phase.seconds)
        self.agreed = phase.agreed if phase.agreed is not None else self.agreed

    def add_evaluation(self, al_round: int, fl_round: int, evaluation: Evaluation) -> None:
        row = {"al_round": al_round, "fl_round": fl_round + 1, "model": "global", **measure(evaluation)}
        self.evaluations.append(row)

    def add_seconds(self, al_round: int, seconds: dict[str, float]) -> None:
        for phase, value in seconds.items():
            self.seconds[al_round, phase] = self.seconds.get((al_round, phase), 0.0) + value

    # --- what the loop reads

    def has_queried(self, al_round: int) -> bool:
        return bool(self.queries) and self.queries[-1][0] >= al_round

    def all_queries(self) -> list[Query]:
        return [query for _, query, _ in self.queries]

    @property
    def labelled(self) -> int:
        """How many samples all clients have had labelled."""
        return sum(len(query.samples) for query in self.all_queries())

    def accuracy_of(self, al_round: int) -> float:
        """Return the accuracy of an AL round that is complete."""
        return float(round_accuracy(self.metrics())[al_round])

    # --- as tidy tables

    def metrics(self) -> pd.DataFrame:
        """Make a row for each evaluated model: the global one by FL round, local-only ones by query."""
        asked = pd.DataFrame([(r, len(q.samples)) for r, q, _ in self.queries], columns=["al_round", "count"])
        labelled = asked.groupby("al_round")["count"].sum().cumsum()
        # Evaluations that an earlier version put into a checkpoint lack newer metrics.
        table = pd.DataFrame(self.evaluations, columns=list(metrics_columns()))
        table["labelled"] = table["al_round"].map(labelled)
        return table.astype({"fl_round": "Int64", "client": "Int64", **dict.fromkeys(METRICS, float)})

    def selections(self) -> pd.DataFrame:
        """Make a row for each labelled sample: AL round, client, rank, sample, label, score."""
        parts = [
            pd.DataFrame(
                {
                    "al_round": al_round,
                    "client": query.client,
                    "rank": range(len(query.samples)),
                    "sample": query.samples.numpy(),
                    "label": labels.numpy(),
                    "score": query.scores.numpy(),
                }
            )
            for al_round, query, labels in self.queries
        ]
        return pd.concat(parts, ignore_index=True)

    def timings(self) -> pd.DataFrame:
        rows = [(al_round, phase, value) for (al_round, phase), value in self.seconds.items()]
        return pd.DataFrame(rows, columns=["al_round", "phase", "seconds"])

    # --- as plain values and tensors, for the checkpoint

    def to_plain(self) -> dict[str, Any]:
        cpu = torch.device("cpu")  # a run begun on a GPU may go on without one
        plain = dict(vars(self))
        plain["clients"] = [state_to_device(kept.own, cpu) for kept in self.clients]
        memories = to_device([kept.memory for kept in self.clients], cpu)
        plain["memories"] = [memory.to_plain() for memory in memories]
        server = self.server.to(cpu) if self.server else None
        plain["server"] = {"weights": server.weights, "state": server.state} if server else None
        plain["queries"] = [(r, vars(query), labels) for r, query, labels in self.queries]
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> State:
        plain = dict(plain)
        memories = [Memory(**memory) for memory in plain.pop("memories", [])]  # none before they were kept
        state = cls(**plain)
        owns: list[AlgorithmState] = plain["clients"]
        if server := plain["server"]:
            # In checkpoints of version 0.1, SCAFFOLD's variates are the state itself, not a group of it.
            old = "control" in server
            state.server = Server(
                server["weights"], state=as_control_group(server["control"]) if old else server["state"]
            )
            owns = [as_control_group(own) if old else own for own in plain["clients"]]
        memories = memories or [Memory() for _ in owns]
        state.clients = [Kept(own, memory) for own, memory in zip(owns, memories, strict=True)]
        state.queries = [(r, Query(**query), labels) for r, query, labels in plain["queries"]]
        return state


def round_accuracy(metrics: pd.DataFrame) -> pd.Series:
    """Compute the test accuracy of the global model by AL round."""
    table = metrics[metrics["model"] == "global"].set_index("fl_round")
    return table.groupby("al_round")["accuracy"].apply(
        lambda measured: mean_of_last(by_fl_round(measured.index, measured))
    )


def by_fl_round(fl_round: ArrayLike, accuracy: ArrayLike) -> list[float]:
    """List the accuracy after each FL round; NaN where it was not measured, as may be between sites."""
    rounds = np.asarray(fl_round, dtype=np.int64)
    measured = np.full(rounds.max(), math.nan)
    measured[rounds - 1] = accuracy
    values: list[float] = measured.tolist()
    return values


def mean_of_last(accuracy: Sequence[float]) -> float:
    """Compute the accuracy of an AL round: the mean of what was measured in its last five FL rounds."""
    last = np.array(accuracy[-LAST_FL_ROUNDS:], dtype=np.float64)
    known = last[~np.isnan(last)]
    return float(known.mean()) if len(known) else math.nan


def divergence(metrics: pd.DataFrame) -> str:
    """Say in which round training diverged; empty if in none. Such a model has no loss, but an accuracy."""
    lost = metrics[(metrics["model"] == "global") & metrics["accuracy"].notna() & metrics["loss"].isna()]
    if lost.empty:
        return ""
    r, t = lost[["al_round", "fl_round"]].iloc[0]
    return f"training diverged in AL round {r}, FL round {t}: the loss is not a number; try a smaller --lr"
