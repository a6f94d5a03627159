"""Requests and replies through Flower's records and back."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedactive.models import ModelSpec
from fedactive.randomness import Randomness
from fedactive.sites.flower.wire import decode_reply, decode_request, encode_reply, encode_request
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


def npz(compressed):
    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        content = io.BytesIO()
        np.save(content, np.zeros(10))
        archive.writestr("a.npy", content.getvalue())
    return np.frombuffer(buffer.getvalue(), np.uint8)


def records(**parts):
    return RecordDict({"values": MetricRecord({"problem": 0})} | parts)


@pytest.mark.parametrize(
    "nonsense",
    [
        RecordDict({}),
        RecordDict({"values": MetricRecord({})}),
        RecordDict({"values": MetricRecord({"problem": -1})}),
        RecordDict({"values": MetricRecord({"problem": 0.5})}),
        RecordDict({"values": ConfigRecord({"problem": 0})}),
        records(weights=ArrayRecord({"other": Array(np.zeros(3))})),
        records(weights=ArrayRecord({"npz": Array(np.zeros(3, np.uint8))})),
        records(weights=ArrayRecord({"npz": Array(npz(compressed=True))})),
        records(weights=ArrayRecord({"npz": Array("float32", (3,), "numpy.ndarray", b"\x80\x04K\x01.")})),
    ],
    ids=range(9),
)
def test_nonsense_is_an_error_and_no_more(nonsense):
    assert decode_reply(records(weights=ArrayRecord({"npz": Array(npz(compressed=False))}))).weights
    with pytest.raises((KeyError, ValueError, TypeError, zipfile.BadZipFile)):
        decode_reply(nonsense)
