"""What a client remembers of the training of an AL round, for strategies that ask for more than its end.

    local_last    its own weights after its last local update
    epochs        its weights after each epoch of that update
    committee     of every second FL round the global model that it was sent, and its own weights after it

A client that did not take part in an FL round remembers what it made before. The committee is that of the
latest 20 FL rounds that count and in which the client took part, the last FL round of an AL round among them.
All is forgotten when the next AL round begins. For models of P weights that is, at most and only where the
strategy asks for it,

    4·P  +  4·P·local epochs  +  20·2·4·P    bytes per client

on the device where it trains and in the checkpoint; clients in one process share the global models, so that
K clients have 20·(K + 1)·4·P bytes of committees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fedactive.federated.local_sgd import LocalResult
from fedactive.federated.weights import Weights

MOST_CHECKPOINTS = 20  # of the global and of the client's own model


@dataclass(frozen=True)
class Memory:
    """Nothing, or what a client remembers of this AL round."""

    fl_round: int = -1  # in which it last trained
    last: Weights = field(default_factory=dict)
    epochs: tuple[Weights, ...] = ()
    committee: Mapping[int, tuple[Weights, ...]] = field(default_factory=dict)  # by FL round

    def add(self, later: Memory) -> Memory:
        """Return what is remembered after a later FL round, or after the same one again."""
        kept = {t: pair for t, pair in self.committee.items() if t < later.fl_round} | dict(later.committee)
        latest = sorted(kept)[-MOST_CHECKPOINTS:]
        return replace(later, committee={t: kept[t] for t in latest})

    def models(self, role: str) -> tuple[Weights, ...]:
        """Return the models of that role; none if the client has not trained in this AL round."""
        if role == "local_last":
            return (self.last,) if self.last else ()
        if role == "epochs":
            return self.epochs
        return tuple(weights for t in sorted(self.committee) for weights in self.committee[t])

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain values and tensors, to be saved."""
        return {**vars(self), "committee": dict(self.committee)}


def remembered(
    asked: frozenset[str], fl_round: int, fl_rounds: int, sent: Weights, result: LocalResult
) -> Memory:
    """Make what a client remembers of one FL round, as far as the strategy asks for it."""
    counts = "committee" in asked and (fl_rounds - 1 - fl_round) % 2 == 0
    return Memory(
        fl_round,
        result.weights if "local_last" in asked else {},
        result.epochs if "epochs" in asked else (),
        {fl_round: (sent, result.weights)} if counts else {},
    )


def to_device(memories: Sequence[Memory], device: torch.device) -> list[Memory]:
    """Move what clients remember; what several of them share is moved once and stays shared."""
    moved: dict[int, Weights] = {}

    def move(weights: Weights) -> Weights:
        if id(weights) not in moved:
            moved[id(weights)] = {name: value.to(device) for name, value in weights.items()}
        return moved[id(weights)]

    return [
        replace(
            memory,
            last=move(memory.last),
            epochs=tuple(map(move, memory.epochs)),
            committee={t: tuple(map(move, pair)) for t, pair in memory.committee.items()},
        )
        for memory in memories
    ]
