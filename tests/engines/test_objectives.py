"""All engines train with every objective alike; the sequential one is the definition."""

from dataclasses import dataclass, replace

import pytest
import torch

from fedactive.engines.batched import BatchedEngine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.federated.objective import Objective, make_objective
from fedactive.models import ModelSpec
from fedactive.registry import OBJECTIVES

CPU = torch.device("cpu")
SPEC = ModelSpec("cnn4", (1, 8, 8), 10)
BATCH = 32


def weights(seed):
    return SPEC.initial_weights(torch.Generator().manual_seed(seed))


def jobs(digits, objective, sizes=(70, 32, 1, 0), **changes):
    """Clients of several sizes, the second of which has no pool; all lack some classes."""
    teacher = {name: w + 0.01 * torch.ones_like(w) if w.dim() else w for name, w in weights(5).items()}
    made = []
    for k, size in enumerate(sizes):
        held = (digits.train_labels > k + 1).nonzero()[:, 0]
        samples, pool = held[:size], held[size : size + 40 * (k != 1)]
        rates = tuple(0.01 / (1 + step) for step in range(2 * -(-size // BATCH)))
        job = LocalJob(
            weights(0), samples, digits.train_labels[samples], 2, rates, 1000 + k,
            objective=objective, fl_round=3, teacher=teacher, pool=pool,
        )  # fmt: skip
        made.append(job)
    return made


def furthest(results, others):
    assert [a.steps for a in results] == [b.steps for b in others]
    return max(
        float((a.weights[name].double() - b.weights[name].double()).abs().max())
        for a, b in zip(results, others, strict=True)
        for name in a.weights
    )


@pytest.fixture(scope="module")
def engines(digits):
    recipe = Recipe(batch_size=BATCH)
    with ParallelEngine(SPEC, digits, recipe, workers=1) as parallel:
        yield SequentialEngine(SPEC, digits, recipe, CPU), parallel, BatchedEngine(SPEC, digits, recipe, CPU)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_all_engines_agree_on_every_objective(digits, engines, name):
    sequential, parallel, batched = engines
    work = jobs(digits, make_objective(name))
    expected = sequential.train(work)
    assert furthest(expected, parallel.train(work)) == 0
    assert furthest(expected, batched.train(work)) < 2e-5
    assert (name == "cross_entropy") == (
        furthest(expected, sequential.train(jobs(digits, make_objective("cross_entropy")))) == 0
    )


def test_jobs_of_several_objectives_and_teachers_may_come_together(digits, engines):
    sequential, _, batched = engines
    work = [
        *jobs(digits, make_objective("kcfu"), (33, 20)),
        *jobs(digits, make_objective("distillation"), (40,)),
    ]
    work.insert(1, replace(work[2], teacher=weights(7), shuffle=3))
    expected = sequential.train(work)
    assert furthest(expected, batched.train(work)) < 2e-5
    assert furthest(expected[1:2], sequential.train([replace(work[1], teacher=weights(8))])) > 1e-4
    batched.widest = 1
    try:
        assert furthest(expected, batched.train(work)) < 2e-5
    finally:
        batched.widest = 128


def test_a_stack_is_used_again_by_the_next_round_and_knows_nothing_of_the_last(digits, engines):
    *_, batched = engines
    first = jobs(digits, make_objective("kcfu"))
    before = batched.train(first)
    other = [
        replace(job, fl_round=9, teacher=weights(6), pool=job.samples, shuffle=k)
        for k, job in enumerate(first)
    ]
    batched.train([replace(job, teacher=other[0].teacher) for job in other])
    stacks = len(batched.stacks)
    assert furthest(before, batched.train(first)) == 0
    assert len(batched.stacks) == stacks


@dataclass(frozen=True)
class Mine(Objective):
    """As if it stood in the program that was started."""

    __module__ = "__main__"
    name, summary, paper = "mine", "", ""

    def losses(self, known):
        return known.logits.square().sum(1)


def test_an_objective_that_workers_cannot_import_is_trained_here(digits, engines):
    sequential, parallel, _ = engines
    work = jobs(digits, Mine())
    with pytest.warns(match="one after another: workers cannot import objective mine"):
        found = parallel.train(work)
    assert furthest(sequential.train(work), found) == 0
