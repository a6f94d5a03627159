"""A backbone between sites with photographs: from their PNG files to a model that is exported and used."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing

import numpy as np
import pytest

import fedactive
from fedactive import Silent
from fedactive.data.loader import load
from fedactive.experiment import Experiment
from fedactive.export.write import write_model
from fedactive.sites.coordinator.run_plan import run_plan
from fedactive.sites.rehearsal import Rehearsal
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.trainer import Trainer
from support.folders import admit
from support.loopback import Annotator, Loopback, truths
from support.photographs import write_photographs

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


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("photographs") / "photographs.npz")


@pytest.fixture(scope="module")
def finished(photographs, tmp_path_factory):
    experiment = Experiment(dataset=str(photographs), clients=2, alpha=1.0)
    rehearsal = Rehearsal(tmp_path_factory.mktemp("field") / "rehearsal", experiment, annotators=False)
    admit(rehearsal.coordinator, 2)
    plan = rehearsal.coordinator.keep_plan(PLAN)
    with ExitStack() as open_stores:
        stores = [open_stores.enter_context(closing(site.store())) for site in rehearsal.sites]
        trainers = [
            Trainer(site.folder / "runs", store, site.classes, Collection(site, store), "cpu")
            for site, store in zip(rehearsal.sites, stores, strict=True)
        ]
        people = [Annotator(store, truth) for store, truth in zip(stores, truths(experiment), strict=True)]
        return run_plan(plan, Loopback(trainers, people), [site.name for site in rehearsal.sites])


def test_a_few_labels_tell_temples_from_flowers(finished):
    metrics = finished.metrics.query("model == 'global'")
    assert metrics["labelled"].tolist() == [16]
    assert metrics["accuracy"].iloc[-1] > 0.75


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
    card = (tmp_path / "model.onnx.md").read_text()
    assert "linear on features of images by efficientnet_lite0" in card
    assert json.loads((finished.folder / "field.json").read_text())["standardisation"]
