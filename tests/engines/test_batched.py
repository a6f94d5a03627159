"""The batched engine agrees with the sequential one; here on the CPU, where it runs without graphs."""

import dataclasses

import pytest
import torch

from fedactive.engines.batched import BatchedEngine
from fedactive.engines.plan import Row, plan_steps
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.batches import draw_keys, shuffled
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.federated.objective import make_objective
from fedactive.models import ModelSpec

CPU = torch.device("cpu")
SIZES = (130, 64, 1, 0, 33)


def jobs(digits, spec, sizes=SIZES, **changes):
    start = spec.initial_weights(torch.Generator().manual_seed(0))
    made = []
    for k, size in enumerate(sizes):
        samples = torch.arange(10 * k, 10 * k + size)
        rates = tuple(0.01 / (1 + step) for step in range(2 * (-(-size // 64))))
        values = {"epochs": 2, "rates": rates, "shuffle": 1000 + k} | changes
        made.append(LocalJob(start=start, samples=samples, labels=digits.train_labels[samples], **values))
    return made


def drift(spec):
    weights = spec.initial_weights(torch.Generator().manual_seed(9))
    return {name: value for name, value in weights.items() if value.dim() and "running" not in name}


def furthest(results, others):
    """The largest difference of any weight, over all clients; steps must be the same."""
    assert [a.steps for a in results] == [b.steps for b in others]
    assert all(list(a.weights) == list(b.weights) for a, b in zip(results, others, strict=True))
    assert [len(a.epochs) for a in results] == [len(b.epochs) for b in others]
    return max(
        float((one[name].double() - other[name].double()).abs().max())
        for a, b in zip(results, others, strict=True)
        for one, other in zip((a.weights, *a.epochs), (b.weights, *b.epochs), strict=True)
        for name in one
    )


@pytest.mark.parametrize("term", ["plain", "proximal", "drift", "stop"])
def test_it_agrees_with_the_sequential_engine(digits, term):
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    changes = {
        "plain": {},
        "proximal": {"proximal": 0.1},
        "drift": {"drift": drift(spec)},
        "stop": {"stop_accuracy": 0.12},
    }[term]
    work = jobs(digits, spec, sizes=(128, 64, 1, 0, 33), **changes)
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    assert furthest(a, b) < 1e-5
    if term == "stop":
        assert len({result.steps for result in a if result.steps}) > 1  # some stopped and some did not


def test_it_returns_the_weights_after_each_epoch_like_the_sequential_engine(digits):
    """Of the jobs that ask for them: some are over before others, by plan or by their accuracy."""
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    work = jobs(digits, spec, sizes=(128, 64, 0, 33), stop_accuracy=0.12, each_epoch=True)
    work[1] = dataclasses.replace(work[1], each_epoch=False)
    work[3] = dataclasses.replace(work[3], epochs=1, rates=work[3].rates[:1])
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    assert furthest(a, b) < 1e-5
    assert [len(result.epochs) for result in a][1:] == [0, 0, 1]
    for result in a[::3]:
        assert all(torch.equal(value, result.weights[name]) for name, value in result.epochs[-1].items())
    longer = BatchedEngine(spec, digits, Recipe(), CPU).train(jobs(digits, spec, each_epoch=True))
    first, second = longer[0].epochs
    assert not torch.equal(first["head.weight"], second["head.weight"])


def test_it_stops_by_the_loss_where_the_sequential_engine_does(digits):
    """With too large a rate some loss goes up soon; the model is taught by the first one."""
    spec = ModelSpec("mlp", (1, 8, 8), 10)
    teacher = spec.initial_weights(torch.Generator().manual_seed(7))
    taught = {"objective": make_objective("distillation"), "teacher": teacher}
    changes = {"epochs": 30, "patience": 2, "stop_accuracy": None, **taught}
    work = [
        dataclasses.replace(job, rates=(0.3,) * (30 * len(job.rates) // 2))
        for job in jobs(digits, spec, sizes=(70, 64, 0, 33), **changes)
    ]
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    assert furthest(a, b) < 1e-3
    assert len({result.steps / max(1, len(job.rates)) for result, job in zip(a, work, strict=True)}) > 2


def test_it_takes_any_model(digits):
    spec = ModelSpec("resnet18", (1, 8, 8), 10)
    work = jobs(digits, spec, sizes=(20, 13))
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    assert furthest(a, b) < 1e-4


def test_a_last_batch_of_two_images_agrees_as_far_as_float32_goes(digits):
    """BatchNorm over two values turns the last digit into the second: compare with what float64 says."""
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    work = jobs(digits, spec, sizes=(130,))
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    assert furthest(a, b) < 1e-2


def test_mobilenet_agrees_within_its_own_rounding(digits):
    """Its float32 gradients are a percent or more off those in float64: nothing can agree better than that."""
    spec = ModelSpec("mobilenet", (1, 8, 8), 10)
    work = [dataclasses.replace(job, epochs=1, rates=(0.01,)) for job in jobs(digits, spec, sizes=(64, 40))]
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    for before, one, other in zip(work, a, b, strict=True):
        moved = torch.cat([(one.weights[n] - before.start[n]).flatten() for n in drift(spec)])
        apart = torch.cat([(one.weights[n] - other.weights[n]).flatten() for n in drift(spec)])
        assert apart.norm() < 0.05 * moved.norm()


def test_clients_do_not_depend_on_company_or_width(digits):
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    work = jobs(digits, spec, stop_accuracy=0.12)
    engine = BatchedEngine(spec, digits, Recipe(), CPU)
    together = engine.train(work)
    assert furthest(together, engine.train(work)) == 0
    engine.widest = 2  # as if no more would fit
    assert furthest(together, engine.train(work)) < 1e-6
    assert furthest(together[4:], engine.train(work[4:])) < 1e-6


def test_jobs_may_start_at_different_points_and_last_for_different_times(digits):
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    work = jobs(digits, spec, sizes=(64, 70, 30))
    other = spec.initial_weights(torch.Generator().manual_seed(5))
    work[1] = dataclasses.replace(work[1], start=other, epochs=1, rates=(0.01, 0.02))
    a = SequentialEngine(spec, digits, Recipe(), CPU).train(work)
    b = BatchedEngine(spec, digits, Recipe(), CPU).train(work)
    assert furthest(a, b) < 1e-5


def test_starts_are_left_alone_and_results_are_not_overwritten(digits):
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    (job,) = jobs(digits, spec, sizes=(100,))
    before = {name: value.clone() for name, value in job.start.items()}
    engine = BatchedEngine(spec, digits, Recipe(), CPU)
    (first,) = engine.train([job])
    kept = {name: value.clone() for name, value in first.weights.items()}
    engine.train([dataclasses.replace(job, shuffle=5)])
    assert all(torch.equal(job.start[name], before[name]) for name in before)
    assert all(torch.equal(first.weights[name], kept[name]) for name in kept)


def test_the_plan_has_the_batches_of_each_client_alone():
    recipe = Recipe(batch_size=16)
    work = [
        LocalJob({}, torch.arange(s, s + n), torch.arange(n) % 10, 3, tuple(range(3 * -(-n // 16))), 7 + s)
        for s, n in ((0, 40), (100, 16), (200, 3))
    ]
    plan = plan_steps(work, 5, recipe, CPU)
    assert plan.shape[:3] == (3, 3, 5)
    for k, job in enumerate(work):
        n = len(job.samples)
        order, flips = shuffled(job.shuffle, 3, n), draw_keys(job.shuffle, 3, n) < 0
        for epoch in range(3):
            rows = [Row(plan[epoch, step], recipe) for step in range(3)]
            code = torch.cat([row.code[k] for row in rows])
            assert torch.equal(code[:n], job.samples[order[epoch]] * 2 + flips[epoch])
            assert (code[n:] == -1).all()
            targets = torch.cat([row.targets[k] for row in rows])
            assert torch.equal(targets[:n], job.labels[order[epoch]])
            steps = -(-n // 16)
            rates = [float(row.rates[k]) for row in rows[:steps]]
            assert rates == list(job.rates[epoch * steps : (epoch + 1) * steps])
    assert (Row(plan[0, 0], recipe).code[3:] == -1).all()  # nobody there
