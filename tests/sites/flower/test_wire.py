"""Requests and replies through Flower's records and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from safetensors import SafetensorError

from fedactive.models import ModelSpec
from fedactive.randomness import Randomness
from fedactive.sites.flower.wire import (
    LARGEST_HEADER,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)
from fedactive.sites.messages import Reply, Request


@pytest.fixture
def weights():
    return ModelSpec("cnn4", (1, 8, 8), 3).initial_weights(Randomness(1).torch("test"))


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


def test_requests(weights):
    state = {"control": {"head.bias": torch.ones(3)}, "request": {"length": torch.tensor(2.5)}, "none": {}}
    request = Request("train", "run-1", 2, 5, {"run": {"client": 1}, "close": 0}, weights, state)
    back = decode_request(encode_request(request))
    assert (back.kind, back.run, back.al_round, back.fl_round) == ("train", "run-1", 2, 5)
    assert back.settings == request.settings
    assert equal(back.weights, weights)
    assert back.state.keys() == state.keys()
    assert all(equal(back.state[group], tensors) for group, tensors in state.items())


def test_replies(weights):
    reply = Reply({"samples": 7, "loss": 0.5, "tested": [1, 0, 2]}, weights, {}, 0)
    back = decode_reply(encode_reply(reply))
    assert back.values == reply.values
    assert equal(back.weights, weights)
    assert back.state == {}
    assert decode_reply(encode_reply(Reply(problem=3))) == Reply(problem=3)


def test_a_reply_has_no_place_for_text():
    with pytest.raises(TypeError):
        encode_reply(Reply({"loss": "doe-john.png"}))  # type: ignore[dict-item]


def records(**parts):
    return RecordDict({"values": MetricRecord({"problem": 0})} | parts)


def sent(content, shape=None):
    """A reply whose weights are these bytes, as a site of its own making could send them."""
    array = Array("uint8", shape or (len(content),), "safetensors", content)
    return records(weights=ArrayRecord({"safetensors": array}))


def tensors(header, content=b"", length=None):
    """A file of tensors with this header, which may say anything."""
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + content


def described(*offsets, shape=(10,)):
    return {"dtype": "F32", "shape": shape, "data_offsets": offsets}


BYTES = bytes(40)


def test_what_is_not_nonsense():
    assert decode_reply(sent(tensors({"a": described(0, 40)}, BYTES))).weights["a"].shape == (10,)


@pytest.mark.parametrize(
    "nonsense",
    [
        RecordDict({}),
        RecordDict({"values": MetricRecord({})}),
        RecordDict({"values": MetricRecord({"problem": -1})}),
        RecordDict({"values": MetricRecord({"problem": 0.5})}),
        RecordDict({"values": ConfigRecord({"problem": 0})}),
        records(weights=ArrayRecord({"other": Array(np.zeros(3))})),
        sent(b""),
        sent(b"\x80\x04K\x01."),
        sent(tensors({"a": described(0, 40)})),  # more than there is
        sent(tensors({"a": described(0, 40)}, BYTES, length=2**63)),
        sent(tensors({name: described(0, 40) for name in "ab"}, BYTES)),  # twice the same bytes
        sent(tensors({"a": described(0, 40), "b": described(20, 60)}, bytes(60))),
        sent(tensors({"a": described(0, 40, shape=(2**40,))}, BYTES)),
        sent(tensors({"a": described(0, 40, shape=(2**62, 2**62))}, BYTES)),
        sent(tensors({"a": described(0, 0, shape=(0, -1))})),
        sent(tensors([1, 2], BYTES)),
        sent(tensors({str(n): described(0, 0, shape=(0,)) for n in range(20_000)})),
    ],
    ids=range(17),
)
def test_nonsense_is_an_error_and_no_more(nonsense):
    with pytest.raises((KeyError, ValueError, TypeError, SafetensorError)):
        decode_reply(nonsense)


def test_the_largest_header_that_is_read():
    text = json.dumps({"a": described(0, 40)}).encode()
    for length in (LARGEST_HEADER, LARGEST_HEADER + 8):
        reply = sent(length.to_bytes(8, "little") + text.ljust(length) + BYTES)
        if length == LARGEST_HEADER:
            assert decode_reply(reply).weights["a"].shape == (10,)
        else:
            with pytest.raises(ValueError, match=f"a header of {length} bytes"):
                decode_reply(reply)


def test_an_array_takes_no_more_room_than_its_bytes_whatever_it_claims():
    claimed = sent(tensors({"a": described(0, 40)}, BYTES), shape=(2**50,))
    assert decode_reply(claimed).weights["a"].numel() == 10
