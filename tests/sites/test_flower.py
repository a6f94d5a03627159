"""The field for real: processes, sockets, TLS, keys, Flower, labelling pages. One federation for all tests."""

from __future__ import annotations

import json
import os
import signal
import ssl
import time

import httpx
import numpy as np
import pandas as pd
import pytest
import torch
from recorder import record_at

from fedactive import laboratory
from fedactive.experiment import Experiment
from fedactive.runs import read_checkpoint
from fedactive.sites import watch
from fedactive.sites.flower import processes
from fedactive.sites.invitation import Invitation
from fedactive.sites.rehearsal import Rehearsal, wait_for
from fedactive.sites.site import Site
from fedactive.split import split

PLAN = """
dataset = "digits"
augment = "none"
strategy = "logo"
algorithm = "scaffold"
rounds = 2
fl_rounds = 2
local_epochs = 2
local_only_epochs = 4
device = "cpu"

[field]
evaluate_every = 2
"""


@pytest.fixture(scope="module")
def experiment():
    return Experiment.from_toml(PLAN.split("[field]")[0], clients=3, workers=1)


@pytest.fixture(scope="module")
def rehearsal(experiment, tmp_path_factory):
    with Rehearsal(tmp_path_factory.mktemp("field") / "rehearsal", experiment) as rehearsal:
        yield rehearsal


@pytest.fixture(scope="module")
def finished(rehearsal):
    """The run of the plan."""
    return watch.run(rehearsal.coordinator, rehearsal.coordinator.keep_plan(PLAN))


def selections_at(site, folder):
    run = json.loads((folder / "field.json").read_text())["run"]
    files = sorted((site.folder / "runs" / run).glob("round-*.json"))
    return [json.loads(file.read_text())["samples"] for file in files]


def test_three_sites_give_the_laboratorys_numbers(experiment, rehearsal, finished, digits, tmp_path):
    lab = laboratory.run(Experiment.from_toml(experiment.to_toml(), runs_dir=tmp_path))
    pools = split(experiment, digits.train_labels, 10).pools
    for k, site in enumerate(rehearsal.sites):
        mine = lab.selections[lab.selections["client"] == k]
        expected = [group["sample"].tolist() for _, group in mine.groupby("al_round")]
        assert [pools[k][samples].tolist() for samples in selections_at(site, finished.folder)] == expected
    states = [read_checkpoint(result.folder / "checkpoint.pt") for result in (lab, finished)]
    for name, value in states[0].server.weights.items():
        torch.testing.assert_close(states[1].server.weights[name], value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lab.accuracy.iloc[-1], finished.accuracy.iloc[-1], atol=0.2)
    assert finished.metrics["labelled"].max() == lab.metrics["labelled"].max()
