"""A coordinator that sends nonsense: a site refuses it in one sentence, and goes on."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from fedactive.data.catalog import DATASETS
from fedactive.models import ModelSpec
from fedactive.sites.card import card_to_plain
from fedactive.sites.messages import OTHER_MODEL, PROBLEMS, Request
from support.loopback import loopback
from support.unharmed import unharmed

MANY = 2000
TEXTS = ["x", "é\x00\n", "../../x", "/etc/passwd", "a" * 5000, "~", "run", "nul", "[", "model = 3"]
NUMBERS = [-1, -(2**62), -1e308, float("nan"), float("inf"), None]


@pytest.fixture
def site(small, tmp_path):
    """A trainer that knows a run, and a sound request to train."""
    experiment = small(strategy="random")
    transport = loopback(experiment, tmp_path)
    card = DATASETS["digits"]
    spec = ModelSpec(experiment.model, (card.channels, card.size, card.size), len(card.classes))
    weights = spec.initial_weights(torch.Generator().manual_seed(0))
    run = {"experiment": experiment.to_toml(), "images": card_to_plain(card), "client": 0, "budget": [20]}
    settings = {"run": run | {"clip": 0.0, "noise": 0.0}, "deadline": 0.0, "overlap": 1, "close": 0}
    trainer = transport.trainers[0]
    assert trainer.answer(Request("query", "run", 1, settings=settings)).problem == 0
    transport.annotators[0].work()
    return trainer, Request("train", "run", 1, 0, settings, weights)


def spoil_weights(weights, rng):
    name, kind = rng.choice(list(weights)), rng.randrange(5)
    value = weights[name]
    if kind == 0:
        return {n: w for n, w in weights.items() if n != name}
    if kind == 1:
        return weights | {rng.choice(TEXTS): value}
    if kind == 2:
        return weights | {name: value.double() if value.is_floating_point() else value.float()}
    if kind == 3:
        return weights | {name: torch.zeros(rng.choice([(0,), (1,), (3, 3), (2,) * 20]))}
    return weights | {name: torch.full(value.shape, float(rng.choice([float("nan"), float("inf")])))}


def spoil(request, rng):
    """One thing or two that no honest coordinator sends, and that no training follows from."""
    settings = dict(request.settings)
    run = dict(settings["run"])
    for _ in range(rng.randint(1, 2)):
        key = rng.choice(["experiment", "images", "client", "budget", "clip", "noise"])
        run[key] = rng.choice([*TEXTS, *NUMBERS, [], {}, {"classes": 3}, [[]]])
    changes = {"settings": settings | {"run": run}}
    if rng.random() < 0.5:
        changes = {"weights": spoil_weights(request.weights, rng), "kind": rng.choice(["train", "evaluate"])}
    if rng.random() < 0.3:
        changes["run"] = rng.choice(TEXTS[1:5])
    return dataclasses.replace(request, **changes)


def test_malformed_requests(site):
    trainer, sound = site
    rng, files = random.Random(1), sorted(trainer.folder.rglob("*"))
    with unharmed():
        for _ in range(MANY):
            spoilt = spoil(sound, rng)
            assert 0 < trainer.answer(spoilt).problem <= len(PROBLEMS), (spoilt.run, spoilt.settings)
    assert sorted(trainer.folder.rglob("*")) == files
    assert trainer.answer(sound).problem == 0


def test_weights_of_another_model_are_refused(site):
    trainer, sound = site
    other = ModelSpec("cnn4", (1, 28, 28), 10).initial_weights(torch.Generator().manual_seed(0))
    for kind in ("train", "query", "evaluate"):
        for weights in (other, {"w": torch.zeros(2)}):
            found = trainer.answer(dataclasses.replace(sound, kind=kind, weights=weights, al_round=2))
            assert PROBLEMS[found.problem - 1] == OTHER_MODEL
    assert PROBLEMS[trainer.answer(dataclasses.replace(sound, weights={})).problem - 1] == OTHER_MODEL
