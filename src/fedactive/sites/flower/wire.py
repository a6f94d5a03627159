"""Requests and replies as Flower's records.

A reply is one record of numbers and two of arrays: there is no text in it, and so no name or sentence of a
site can slip out.
"""

from __future__ import annotations

import json

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedactive.federated.weights import Weights
from fedactive.sites.messages import KINDS, Reply, Request

MESSAGE_TYPES = {
    "hello": "query.hello",
    "query": "query",
    "label_status": "query.label_status",
    "train": "train",
    "evaluate": "evaluate",
}
assert tuple(MESSAGE_TYPES) == KINDS


def encode_request(request: Request) -> RecordDict:
    return RecordDict(
        {
            "request": ConfigRecord(
                {
                    "kind": request.kind,
                    "run": request.run,
                    "al_round": request.al_round,
                    "fl_round": request.fl_round,
                    "settings": json.dumps(request.settings),
                }
            ),
            "weights": encode_weights(request.weights),
            "control": encode_weights(request.control),
        }
    )


def decode_request(records: RecordDict) -> Request:
    heading = records.config_records["request"]
    return Request(
        kind=str(heading["kind"]),
        run=str(heading["run"]),
        al_round=int(str(heading["al_round"])),
        fl_round=int(str(heading["fl_round"])),
        settings=json.loads(str(heading["settings"])),
        weights=decode_weights(records.array_records["weights"]),
        control=decode_weights(records.array_records["control"]),
    )


def encode_reply(reply: Reply) -> RecordDict:
    return RecordDict(
        {
            "values": MetricRecord({**reply.values, "problem": reply.problem}),
            "weights": encode_weights(reply.weights),
            "control": encode_weights(reply.control),
        }
    )


def decode_reply(records: RecordDict) -> Reply:
    values = dict(records.metric_records["values"])
    problem = values.pop("problem")
    if not isinstance(problem, int) or problem < 0:
        raise ValueError(f"no problem is numbered {problem!r}")
    weights, control = (decode_weights(records.array_records[name]) for name in ("weights", "control"))
    return Reply(values, weights, control, problem)


def encode_weights(weights: Weights) -> ArrayRecord:
    return ArrayRecord({name: Array(value.numpy()) for name, value in weights.items()})


def decode_weights(record: ArrayRecord) -> Weights:
    # A copy: Flower's arrays may be read-only, which tensors cannot be.
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
