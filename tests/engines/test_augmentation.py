"""All engines vary images alike: one after another, side by side, all at once, and by the GPU's kernels."""

import dataclasses

import pytest
import torch

from fedactive.engines.batched import BatchedEngine
from fedactive.engines.branches import BranchStack
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.plan import plan_steps
from fedactive.engines.sequential import SequentialEngine
from fedactive.engines.shelf import EngineShelf
from fedactive.errors import UserError
from fedactive.federated.augmentation import make_augmentation
from fedactive.federated.batches import draw_keys, shuffled
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec
from fedactive.registry import load_plugin

CPU = torch.device("cpu")
SPEC = ModelSpec("cnn4", (1, 8, 8), 10)
PLUGIN = """
import torch
from fedactive.federated.augmentation import Augmentation, integers, register

@register
class Darken(Augmentation):
    name = "darken"
    summary = "darkens images by up to a half"
    paper = "-"

    def __call__(self, images, keys):
        return images - images // (2 + integers(keys, 4, "darken"))[:, None, None, None].to(torch.uint8)
"""


@pytest.fixture
def darken(tmp_path):
    (tmp_path / "darken.py").write_text(PLUGIN)
    load_plugin(tmp_path / "darken.py")


def jobs(digits, sizes=(100, 64, 0, 33), **changes):
    start = SPEC.initial_weights(torch.Generator().manual_seed(0))
    made = []
    for k, size in enumerate(sizes):
        samples = torch.arange(7 * k, 7 * k + size)
        values = {"epochs": 2, "rates": (0.01,) * (2 * -(-size // 64)), "shuffle": 50 + k} | changes
        made.append(LocalJob(start=start, samples=samples, labels=digits.train_labels[samples], **values))
    return made


def apart(results, others):
    return max(
        float((a.weights[name].double() - b.weights[name].double()).abs().max())
        for a, b in zip(results, others, strict=True)
        for name in a.weights
    )


@pytest.mark.parametrize("augment", ["flip", "crop", "flip+crop", "darken", "crop+darken", "none"])
def test_engines_agree(digits, darken, augment):
    recipe, work = Recipe(augment=augment), jobs(digits)
    one = SequentialEngine(SPEC, digits, recipe, CPU).train(work)
    assert apart(one, BatchedEngine(SPEC, digits, recipe, CPU).train(work)) < 1e-5
    if augment == "crop+darken":
        with ParallelEngine(SPEC, digits, recipe, 2) as engine:
            assert apart(one, engine.train(work)) == 0
    other = "crop" if augment == "none" else "none"
    assert apart(one, SequentialEngine(SPEC, digits, Recipe(augment=other), CPU).train(work)) > 1e-3


def test_clients_stop_early_by_images_as_they_are(digits):
    """The accuracy that ends local-only training is measured without augmentation, in every engine."""
    recipe, work = Recipe(augment="crop"), jobs(digits, (64, 40), stop_accuracy=0.12)
    a = SequentialEngine(SPEC, digits, recipe, CPU).train(work)
    b = BatchedEngine(SPEC, digits, recipe, CPU).train(work)
    assert [r.steps for r in a] == [r.steps for r in b]
    assert apart(a, b) < 1e-5


@pytest.mark.parametrize("augment", ["flip", "crop", "flip+crop"])
def test_a_stack_sees_what_the_seed_says(digits, augment):
    recipe, (job,) = Recipe(augment=augment, batch_size=16), jobs(digits, (40,), epochs=1, rates=(0.1,) * 3)
    engine = BatchedEngine(SPEC, digits, recipe, CPU)
    stack = BranchStack(engine.model, digits.train_inputs, engine.normalise, recipe, 2, (False, False))
    stack.load([job])
    order, keys = shuffled(job.shuffle, 1, 40)[0], draw_keys(job.shuffle, 1, 40)[0]
    wanted = make_augmentation(augment)(digits.train_inputs[job.samples[order]], keys)
    for step, row in enumerate(plan_steps([job], 2, recipe, CPU)[0]):
        stack.row.copy_(row)
        stack.fetch()
        part = engine.normalise(wanted[16 * step : 16 * step + 16]).movedim(1, -1)
        assert torch.equal(stack.batch[0, : len(part)], part)
        assert stack.present[0].sum() == len(part)
        stack.fetch(varied=False)
        if augment != "flip":  # there the plan itself says who is mirrored
            plain = digits.train_inputs[job.samples[order[16 * step : 16 * step + 16]]]
            assert torch.equal(stack.batch[0, : len(part)], engine.normalise(plain).movedim(1, -1))


def test_features_are_not_varied(small, tmp_path, digits):
    data = dataclasses.replace(
        digits, train_inputs=digits.train_inputs.flatten(1).float() / 255,
        test_inputs=digits.test_inputs.flatten(1).float() / 255, mean=(), std=(),
    )  # fmt: skip
    spec, work = ModelSpec("linear", (64,), 10), jobs(digits, (20,))
    start = spec.initial_weights(torch.Generator().manual_seed(0))
    work = [dataclasses.replace(job, start=start) for job in work]
    found = [
        engine(spec, data, Recipe(augment=augment), CPU).train(work)
        for augment in ("crop", "none")
        for engine in (SequentialEngine, BatchedEngine)
    ]
    assert max(apart(found[0], other) for other in found[1:]) < 1e-6


def test_one_that_cannot_work_is_refused_before_any_work(small, digits, tmp_path):
    (tmp_path / "bad.py").write_text(PLUGIN.replace("return images", "return images.float()"))
    load_plugin(tmp_path / "bad.py")
    with (
        EngineShelf() as engines,
        pytest.raises(UserError, match=r"^augmentation darken: it makes torch\.float32"),
    ):
        engines.get(small(augment="darken"), digits)
