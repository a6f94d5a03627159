"""Heads that are trained in step get what each gets by itself, bit for bit."""

from dataclasses import replace

import pytest
import torch

from fedactive.engines import make_engine
from fedactive.engines.heads import are_heads, train_heads
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.local_sgd import LocalJob, Recipe, train
from fedactive.models import ModelSpec

SPEC = ModelSpec("linear", (64,), 10)
RECIPE = Recipe()
START = SPEC.initial_weights(torch.Generator().manual_seed(0))
DRIFT = SPEC.initial_weights(torch.Generator().manual_seed(9))


@pytest.fixture(scope="module")
def engine(digits):
    def features(images):
        return images.flatten(1).float() / 16

    data = replace(
        digits,
        train_inputs=features(digits.train_inputs),
        test_inputs=features(digits.test_inputs),
        mean=(),
        std=(),
    )
    with make_engine(SPEC, data, RECIPE, "cpu", workers=2, clients=6) as engine:
        yield engine


def jobs(engine, sizes, **changes):
    made = []
    for k, size in enumerate(sizes):
        samples = torch.arange(50 * k, 50 * k + size)
        values = {"epochs": 3, "rates": (0.05, 0.01, 0.1) * -(-size // 64), "shuffle": 1000 + k} | changes
        made.append(LocalJob(START, samples, engine.dataset.train_labels[samples], **values))
    return made


@pytest.mark.parametrize(
    "changes",
    [{}, {"proximal": 0.1}, {"drift": DRIFT}, {"stop_accuracy": 0.6}, {"stop_accuracy": 0.0}],
    ids=["plain", "proximal", "drift", "some stop", "all stop"],
)
@pytest.mark.parametrize("sizes", [(5, 5, 5), (130, 64, 1, 0, 64, 130, 33)])
def test_in_step_is_as_alone(engine, sizes, changes):
    assert isinstance(engine, SequentialEngine)  # processes would be slower
    work = jobs(engine, sizes, **changes)
    steps = []
    for job, together in zip(work, engine.train(work), strict=True):
        alone = train(engine.model, engine.dataset.train_inputs, engine.normalise, RECIPE, job)
        assert alone.steps == together.steps
        assert all(torch.equal(alone.weights[name], together.weights[name]) for name in START)
        steps.append(together.steps)
    if changes == {"stop_accuracy": 0.6} and len(sizes) > 3:
        assert len({count // -(-size // 64) for count, size in zip(steps, sizes, strict=True) if size}) > 1


def test_jobs_are_left_as_they_were(engine):
    before = {name: value.clone() for name, value in START.items()}
    train_heads(engine.dataset.train_inputs, RECIPE, jobs(engine, (20, 20)))
    assert all(torch.equal(before[name], START[name]) for name in START)


def test_other_models_are_trained_as_ever():
    assert are_heads(SPEC, RECIPE)
    for spec in (ModelSpec("linear", (1, 8, 8), 10), ModelSpec("mlp", (64,), 10)):
        assert not are_heads(spec, RECIPE)
    assert not are_heads(SPEC, Recipe(precision="bf16"))
