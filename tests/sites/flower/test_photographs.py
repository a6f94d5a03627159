"""A backbone between sites for real: processes, sockets, real photographs, and the model out again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.torch
from flwr.app.message.arraychunk import ArrayChunk
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_type_from_object_content,
)

import fedactive
from fedactive import Silent
from fedactive.data.loader import load
from fedactive.experiment import Experiment
from fedactive.export.write import write_model
from fedactive.sites.coordinator import launch
from support.photographs import write_photographs
from support.recorded_rehearsal import RecordedRehearsal

PLAN = """
dataset = "photographs"
strategy = "margin"
first = "typiclust"
budget = "8/client"
rounds = 1
fl_rounds = 2
local_epochs = 10
augment = "none"
device = "cpu"

[images]
classes = ["temple", "flower"]
backbone = "efficientnet_lite0"
size = 64

[field]
evaluate_every = 2
"""
HEAD = 2 * 1280 * 4 + 2 * 4  # bytes of the weights and biases


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("photographs") / "photographs.npz")


@pytest.fixture(scope="module")
def rehearsal(photographs, tmp_path_factory):
    experiment = Experiment(dataset=str(photographs), clients=2, alpha=1.0)
    with RecordedRehearsal(tmp_path_factory.mktemp("field") / "rehearsal", experiment) as rehearsal:
        yield rehearsal


@pytest.fixture(scope="module")
def finished(rehearsal):
    return launch.run(rehearsal.coordinator, rehearsal.coordinator.keep_plan(PLAN))


def test_a_few_labels_tell_temples_from_flowers(finished):
    metrics = finished.metrics.query("model == 'global'")
    assert metrics["labelled"].tolist() == [16]
    assert metrics["accuracy"].iloc[-1] > 0.75


def test_sites_embed_once_and_send_heads_and_sums(rehearsal, finished):
    sent = []
    for path, _, body in rehearsal.recorder.requests:
        if path.startswith("/v1/fleet/push-object?"):
            content = PushObjectRequest.FromString(body).object_content
            if get_object_type_from_object_content(content) == "ArrayChunk":
                sent.append((get_object_body(content, ArrayChunk), len(body)))
    heads = [(body, size) for body, size in sent if b"head.weight" in body]
    sums = [safetensors.torch.load(body) for body, _ in sent if b"head.weight" not in body]
    assert len(heads) == 2 * 2  # sites, FL rounds
    assert max(size for _, size in heads) < HEAD + 500
    assert [tensors.keys() for tensors in sums] == [{"sums", "squares"}] * 2
    for site in rehearsal.sites:
        assert "images are embedded" in (rehearsal.folder / f"{site.name}.log").read_text()
    # All calls that a site makes for an FL round, with headers, heartbeats, counts and what came before.
    assert len(rehearsal.recorder.everything) / len(heads) < 150_000


def test_the_model_comes_out_and_says_what_the_run_said(photographs, finished, tmp_path):
    write_model(finished.folder, tmp_path / "model.onnx", Silent())
    model, data = (
        fedactive.load_model(tmp_path / "model.onnx", device="cpu"),
        load(str(photographs), tmp_path),
    )
    images = data.test_inputs.permute(0, 2, 3, 1).numpy()
    found = model.predict(images)["prediction"].to_numpy()
    right = np.array(data.classes)[data.test_labels] == found
    last = finished.metrics.query("model == 'global'")["accuracy"].iloc[-1]
    assert right.mean() == pytest.approx(last, abs=0.06)  # one of twenty, by rounding
    card = (tmp_path / "model.md").read_text()
    assert "linear on features of images by efficientnet_lite0" in card
    assert json.loads((finished.folder / "field.json").read_text())["standardisation"]
