"""Two thousand malformed messages: each is an error that callers expect, and none takes more room than it has."""

from __future__ import annotations

import random

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Metadata, MetricRecord, RecordDict

from fedactive.sites.flower.runner import Runner
from fedactive.sites.flower.transport import read_reply
from fedactive.sites.flower.wire import FORMAT, encode_reply, encode_request, pack
from fedactive.sites.messages import Reply, Request
from support.unharmed import unharmed

WEIGHTS = {"head.weight": torch.randn(40, 50), "head.bias": torch.randn(50), "count": torch.tensor(3)}
MANY = 2000
VALUES = [0, -1, 2**62, 0.5, float("nan"), float("inf"), [], [1, 2], [1.5], [2**62] * 1000]
TEXTS = ["", "x", "é\x00\n", "../..", "9" * 5000, "{", "[" * 5000, "null", '{"run": 1e999}', "-1", "nan"]


class Carrier:
    """A message of Flower, as far as its reader looks."""

    def __init__(self, content):
        self.content = content
        self.metadata = Metadata(1, "message", 0, 1, "", "group", 0.0, 60.0, "train")


def spoil(content: bytes, rng: random.Random) -> bytes:
    """Change, cut, double or replace some bytes."""
    spoilt = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(max(1, len(spoilt)))
        what = rng.randrange(5)
        if what == 0:
            spoilt[at : at + 1] = rng.randbytes(1)
        elif what == 1:
            del spoilt[at:]
        elif what == 2:
            spoilt[at:at] = spoilt[: rng.randrange(200)]
        elif what == 3:
            spoilt[:8] = rng.choice([0, 1, 2**20, 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
        else:
            spoilt[at : at + 4] = rng.choice([b"9999", b"-1,0", b"[[[[", b"}}}}", b"\x00" * 4, b"F64\x00"])
    return bytes(spoilt)


def records(rng: random.Random) -> RecordDict:
    """A reply or a request of which some is wrong."""
    tensors = pack(WEIGHTS)
    content = spoil(tensors.data, rng) if rng.random() < 0.8 else tensors.data
    shape = rng.choice([(len(content),), (), (2**62,), (0,)])
    array = Array(
        rng.choice(["uint8", "float64", "object"]), shape, rng.choice([FORMAT, "numpy.ndarray"]), content
    )
    name = rng.choice(["weights", "state.control", "state.", "other", "state.\x00"])
    parts: dict[str, object] = {name: ArrayRecord({rng.choice([FORMAT, "npz"]): array})}
    parts["values"] = MetricRecord({key: rng.choice(VALUES) for key in ("problem", "samples", "images")})
    names = ("kind", "run", "al_round", "fl_round", "settings")
    parts["request"] = ConfigRecord({key: rng.choice(TEXTS) for key in names if rng.random() < 0.9})
    if rng.random() < 0.3:
        parts.pop(rng.choice(list(parts)))
    return RecordDict(parts)


def test_malformed_messages():
    rng = random.Random(1)
    runner = Runner(
        "127.0.0.1:1", b"secret", lambda request: Reply(problem=9 if request.kind in TEXTS else 0)
    )
    with unharmed():
        for _ in range(MANY):
            content = records(rng)
            assert isinstance(read_reply(Carrier(content)), Reply)
            assert isinstance(runner.reply_to(Carrier(content)), Reply)
    # The untouched ones still pass.
    assert read_reply(Carrier(encode_reply(Reply({"samples": 1}, WEIGHTS)))).values == {"samples": 1}
    assert runner.reply_to(Carrier(encode_request(Request("hello", "run")))) == Reply()
