"""Refuse a state that no run can have left: anybody can write a checkpoint, and its checksum, too.

`require_whole` looks at the values alone, `require_fit` at those of the run that is to go on from them. An
error says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import torch
from torch import Tensor

from fedactive.experiment import Experiment
from fedactive.federated.algorithm import State as Groups
from fedactive.federated.weights import Weights
from fedactive.federation import Federation
from fedactive.query.strategy import make_strategy
from fedactive.record.schema import metrics_columns
from fedactive.record.soundness import require
from fedactive.record.state import State


def require_whole(state: State) -> None:
    """Require that every value is of the type that it is declared with, and that queries are whole."""
    for name, kind in get_type_hints(State).items():
        require(is_a(getattr(state, name), kind), f"its {name} is not what a run leaves")
    pa.Table.from_pylist(state.evaluations, pa.schema(metrics_columns()))  # fails for a value of another type
    for row in state.evaluations:
        where = row["al_round"], row["fl_round"] if row["model"] == "global" else row["client"]
        require(is_a(where, tuple[int, int]), "an evaluation is of no model")
    for _, query, labels in state.queries:
        whole = query.samples.ndim == 1 and query.samples.shape == query.scores.shape == labels.shape
        require(whole and query.samples.dtype == labels.dtype == torch.int64, "a query is not of samples")
        require(query.scores.dtype in (torch.float32, torch.float64), "scores are not numbers")


def is_a(value: object, kind: Any) -> bool:
    """Return whether a value, and all that is in it, is of a type as it is written in an annotation."""
    whole, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if whole is UnionType:
        return any(is_a(value, part) for part in parts)
    if whole is list:
        return isinstance(value, list) and all(is_a(v, parts[0]) for v in value)
    if whole is tuple and isinstance(value, tuple):
        kinds = parts[:1] * len(value) if parts[-1] is ... else parts
        return len(value) == len(kinds) and all(map(is_a, value, kinds))
    if whole in (dict, Mapping) and isinstance(value, dict):
        return all(is_a(k, parts[0]) and is_a(v, parts[1]) for k, v in value.items())
    if isinstance(kind, type) and is_dataclass(kind):
        names = get_type_hints(kind).items()
        return isinstance(value, kind) and all(is_a(getattr(value, name), part) for name, part in names)
    if kind is Tensor:
        return isinstance(value, Tensor) and is_dense(value)
    return type(value) is kind or (kind is float and type(value) is int)


def is_dense(value: Tensor) -> bool:
    """Return whether a tensor has memory for each of its values: a few bytes can claim to be billions."""
    plain = value.layout == torch.strided and value.device.type == "cpu" and not value.is_quantized
    return plain and value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def require_fit(state: State, experiment: Experiment, federation: Federation) -> None:
    """Require that the state is one of this experiment's, with these clients."""
    _require_rounds(state, experiment)
    for al_round, query, _ in state.queries:
        require(0 < al_round <= state.al_round, f"a query is of AL round {al_round}")
        require(0 <= query.client < federation.clients, f"a query is of client {query.client}")
    strategy = make_strategy(experiment.strategy, experiment.selector, experiment.strategy_options)
    numbers = strategy.numbers if state.agreed is None else len(state.agreed)
    require(numbers == strategy.numbers, f"clients agreed on {numbers} numbers")
    if state.server is None:
        require(state.al_round == 1 and not state.queries, "it has no model")
        return

    fresh = federation.start_training(state.al_round, None)
    _require_form(state.server.weights, fresh.weights)
    _require_groups(state.server.state, fresh.state)
    clients = federation.snapshot()
    require(len(state.clients) == len(clients), f"it is of {len(state.clients)} clients")
    for kept, anew in zip(state.clients, clients, strict=True):
        _require_groups(kept.own, anew.own)
        committee = [weights for pair in kept.memory.committee.values() for weights in pair]
        for weights in (kept.memory.last, *kept.memory.epochs, *committee):
            _require_form(weights or fresh.weights, fresh.weights)  # of some clients nothing is remembered


def _require_rounds(state: State, experiment: Experiment) -> None:
    """Require that no round is out of range, and that the global model was measured where one is complete."""
    require(state.al_round > 0, f"it is in AL round {state.al_round}")
    require(0 <= state.fl_round < experiment.fl_rounds, f"it is in FL round {state.fl_round + 1}")
    require(all(0 < r <= state.al_round for r, _ in state.seconds), "its times are of other AL rounds")
    seen = set()
    for row in state.evaluations:
        al_round = row["al_round"]
        whole = row["model"] == "global"
        number, most = (
            (row["fl_round"], experiment.fl_rounds) if whole else (row["client"] + 1, experiment.clients)
        )
        require(
            0 < al_round <= state.al_round and 0 < number <= most, "a model is of another round or client"
        )
        require((al_round, whole, number) not in seen, "a model was measured twice")
        seen.add((al_round, whole, number))
    ends = {al_round for al_round, whole, number in seen if whole and number == experiment.fl_rounds}
    require(len(ends - {state.al_round}) == state.al_round - 1, "an AL round ends without a measurement")


def _require_groups(found: Groups, expected: Groups) -> None:
    """Require what an algorithm begins with; it may have come to remember more."""
    for name, weights in expected.items():
        _require_form(found.get(name, {}), weights)


def _require_form(found: Weights, expected: Weights) -> None:
    forms = [{name: (v.shape, v.dtype) for name, v in weights.items()} for weights in (found, expected)]
    require(forms[0] == forms[1], "it is of another model or algorithm")
