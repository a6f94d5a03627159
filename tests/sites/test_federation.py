"""The sites as a federation, in one process: the same numbers as the laboratory, whatever goes wrong."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from loopback import Loopback, loopback, site_selections

from fedactive import laboratory
from fedactive.data import DATASETS
from fedactive.runs import read_checkpoint
from fedactive.sites import federation as federation_module
from fedactive.sites import field
from fedactive.sites.plan import Plan, Rules
from fedactive.split import split

NAMES = ["north", "south", "west"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(federation_module, "FIRST_PAUSE", 0.01)


def plan_of(experiment, tmp_path, **rules):
    experiment = dataclasses.replace(experiment, runs_dir=tmp_path / "coordinator")
    return Plan(experiment, DATASETS[experiment.dataset], Rules(**rules))


def weights_of(folder):
    return read_checkpoint(folder / "checkpoint.pt").server.weights


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": "logo", "algorithm": "fedavg"},
        {"strategy": "entropy", "selector": "local", "algorithm": "scaffold"},
        {"strategy": "badge", "algorithm": "fedprox", "init": "continue", "participation": 0.7},
    ],
    ids=lambda changes: changes["strategy"],
)
def test_sites_give_the_laboratorys_numbers(small, digits, tmp_path, changes):
    experiment = small(**changes)
    lab = laboratory.run(experiment)
    transport = loopback(experiment, tmp_path)
    result = field.run(plan_of(experiment, tmp_path), transport, NAMES)

    pools = split(experiment, digits.train_labels, 10).pools
    run = json.loads((result.folder / "field.json").read_text())["run"]
    for k, trainer in enumerate(transport.trainers):
        mine = lab.selections[lab.selections["client"] == k]
        for r, samples in enumerate(site_selections(trainer, run, experiment.rounds), start=1):
            assert pools[k][samples].tolist() == mine[mine["al_round"] == r]["sample"].tolist()
    theirs, ours = weights_of(lab.folder), weights_of(result.folder)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-5)
    for column in ("labelled", "accuracy", "loss"):
        a, b = (t.metrics[t.metrics["model"] == "global"][column].to_numpy(float) for t in (lab, result))
        np.testing.assert_allclose(a, b, atol=2e-3)
