"""Requests and replies as Flower's records.

A reply is a record of numbers, and tensors. The only words in it are the names of these, so no name of a
person and no sentence can slip out.
"""

from __future__ import annotations

import json

import safetensors.torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedactive.federated.algorithm import State
from fedactive.federated.weights import Weights
from fedactive.sites.messages import KINDS, Reply, Request

MESSAGE_TYPES = {
    "hello": "query.hello",
    "embed": "query.embed",
    "summary": "query.summary",
    "query": "query",
    "label_status": "query.label_status",
    "train": "train",
    "evaluate": "evaluate",
}
assert tuple(MESSAGE_TYPES) == KINDS
PING = "query.ping"  # asks for nothing: a site that answers it is not at work on what it was asked before

FORMAT = "safetensors"
LARGEST_HEADER = 2**20  # bytes, for the names and shapes of ten thousand tensors
WEIGHTS, STATE = "weights", "state."  # names of records; the second is followed by the name of a group


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
            **tensor_records(request.weights, request.state),
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
        weights=read_weights(records, WEIGHTS),
        state=read_state(records),
    )


def encode_reply(reply: Reply) -> RecordDict:
    return RecordDict(
        {
            "values": MetricRecord({**reply.values, "problem": reply.problem}),
            **tensor_records(reply.weights, reply.state),
        }
    )


def decode_reply(records: RecordDict) -> Reply:
    values = dict(records.metric_records["values"])
    problem = values.pop("problem")
    if not isinstance(problem, int) or problem < 0:
        raise ValueError(f"no problem is numbered {problem!r}")
    return Reply(values, read_weights(records, WEIGHTS), read_state(records), problem)


def tensor_records(weights: Weights, state: State) -> dict[str, ArrayRecord]:
    """A record for the weights, if there are any, and one for each group of the algorithm's own tensors.

    Each is one array: Flower takes several calls for each array that it carries.
    """
    groups = {STATE + group: tensors for group, tensors in state.items()}
    groups |= {WEIGHTS: weights} if weights else {}
    return {name: ArrayRecord({FORMAT: pack(tensors)}) for name, tensors in groups.items()}


def read_state(records: RecordDict) -> State:
    names = [name for name in records.array_records if name != WEIGHTS]
    return {name.removeprefix(STATE): read_weights(records, name) for name in names}


def read_weights(records: RecordDict, name: str) -> Weights:
    return unpack(records.array_records[name][FORMAT]) if name in records.array_records else {}


def pack(weights: Weights) -> Array:
    content = safetensors.torch.save({name: value.contiguous() for name, value in weights.items()})
    return Array("uint8", (len(content),), FORMAT, content)


def unpack(array: Array) -> Weights:
    """Read tensors. They take as many bytes as were sent: the format has neither compression nor overlaps.

    Array.numpy() would make as much room as the array says it needs. Here its bytes alone count.
    """
    header = int.from_bytes(array.data[:8], "little")
    if header > LARGEST_HEADER:
        raise ValueError(f"a header of {header} bytes, where {LARGEST_HEADER} are allowed")
    return safetensors.torch.load(array.data)
