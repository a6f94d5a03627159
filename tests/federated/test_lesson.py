"""What an objective is told in training, against one step written out for a model with one pixel."""

from dataclasses import dataclass

import pytest
import torch

from fedactive.data.preprocess import Normalise
from fedactive.federated.batches import draw_keys, mixed_pairs, shuffled
from fedactive.federated.lesson import needs_teacher
from fedactive.federated.local_sgd import LocalJob, Recipe, train
from fedactive.federated.objective import Objective, make_objective
from support.tiny import Tiny

IMAGES = torch.tensor([[10, 0], [200, 0], [0, 90], [60, 0], [250, 0], [0, 130]], dtype=torch.uint8)
IMAGES = IMAGES.view(6, 1, 1, 2)
NORMALISE = Normalise((1, 1, 2), [0.2], [0.5], torch.device("cpu"))
START = {"head.weight": torch.tensor([[1.0], [-1.0]]), "head.bias": torch.tensor([0.3, 0.0])}
TEACHER = {"head.weight": torch.tensor([[-2.0], [1.0]]), "head.bias": torch.tensor([0.0, 0.5])}


class LeftPixel(Tiny):
    """Sees the left one of two pixels, so that mirroring shows."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def embed(self, images):
        self.sizes.append((len(images), self.training))
        return images[:, :, 0, 0]


@dataclass(frozen=True)
class Nosy(Objective):
    """Writes down what it is told."""

    name, summary, paper = "nosy", "", ""
    needs_global = needs_mixed = True

    def losses(self, known):
        told.append(known)
        return known.logits.square().sum(1)

    def mixed_losses(self, known):
        told.append(known)
        return 3 * known.share * known.logits.square().sum(1)


told = []


def learn(augment="flip", **changes):
    told.clear()
    values = {"samples": torch.tensor([1, 2, 4]), "labels": torch.tensor([0, 1, 1]), "epochs": 2}
    values |= {"rates": (0.1,) * 4, "shuffle": 11, "objective": Nosy(), "fl_round": 7, "teacher": TEACHER}
    values |= {"pool": torch.tensor([5, 0, 3])} | changes
    model, recipe = LeftPixel(), Recipe(batch_size=2, momentum=0.0, weight_decay=0.0, augment=augment)
    return model, train(model, IMAGES, NORMALISE, recipe, LocalJob(START, **values))


def seen(pixel):
    """The left pixel as the model sees it."""
    return (pixel / 255 - 0.2) / 0.5


def says(weights, x):
    return torch.stack(
        [w * x + b for w, b in zip(weights["head.weight"], weights["head.bias"], strict=True)], 1
    )


def test_labelled_images_of_a_batch():
    learn()
    order, flips = shuffled(11, 2, 3), draw_keys(11, 2, 3) < 0
    known, last = told[0], told[6]
    for batch, epoch, cut in ((known, 0, slice(0, 2)), (last, 1, slice(2, 3))):
        place = order[epoch, cut]
        images = IMAGES[torch.tensor([1, 2, 4])[place], 0, 0]
        x = seen(torch.where(flips[epoch, cut], images[:, 1], images[:, 0]).float())
        assert torch.equal(batch.labels, torch.tensor([0, 1, 1])[place])
        assert torch.allclose(batch.global_logits, says(TEACHER, x), atol=1e-6)
        assert not batch.global_logits.requires_grad
        assert (batch.counts.tolist(), batch.fl_round.item()) == ([1, 2], 7)
    assert torch.allclose(known.logits, says(START, seen(image_of(known, order, flips))), atol=1e-6)


def image_of(known, order, flips):
    images = IMAGES[torch.tensor([1, 2, 4])[order[0, :2]], 0, 0]
    return torch.where(flips[0, :2], images[:, 1], images[:, 0]).float()


def test_mixed_images_of_a_batch():
    learn()
    first, second, share = mixed_pairs(11, 2, 3, 3)
    pool = IMAGES[[5, 0, 3], 0, 0, 0].float()  # never mirrored
    guesses = says(TEACHER, seen(pool)).argmax(1)
    assert len(set(guesses.tolist())) == 2
    for batch, epoch, cut in ((told[1], 0, slice(0, 2)), (told[7], 1, slice(2, 3))):
        one, other, beta = first[epoch, cut], second[epoch, cut], share[epoch, cut]
        x = seen(beta * pool[one] + (1 - beta) * pool[other])
        assert torch.allclose(batch.global_logits, says(TEACHER, x), atol=1e-6)
        assert torch.equal(batch.share, beta)
        assert torch.equal(batch.first, guesses[one])
        assert torch.equal(batch.second, guesses[other])
        assert (batch.counts.tolist(), batch.fl_round.item()) == ([1, 2], 7)
    beta, pairs = share[0, :2], (pool[first[0, :2]], pool[second[0, :2]])
    x = seen(beta * pairs[0] + (1 - beta) * pairs[1])
    assert torch.allclose(told[1].logits, says(START, x), atol=1e-6)


def test_both_means_are_added_up():
    _, result = learn(epochs=1, rates=(0.1, 0.0))
    labelled, mixed = (known.logits.detach() for known in told[:2])
    slope = (2 * labelled).mean(0) + (3 * 2 * told[1].share[:, None] * mixed).mean(0)  # of the bias
    assert torch.allclose(result.weights["head.bias"], START["head.bias"] - 0.1 * slope, atol=1e-5)


def test_labelled_and_mixed_images_are_one_batch():
    model, _ = learn(epochs=1)
    assert [size for size, training in model.sizes if training] == [4, 2]


def test_without_a_pool_nothing_is_mixed():
    model, _ = learn(pool=torch.zeros(0, dtype=torch.long))
    assert [size for size, training in model.sizes if training] == [2, 1, 2, 1]
    assert {type(known).__name__ for known in told} == {"Labelled"}


def test_a_pool_of_one_image_is_mixed_with_itself():
    learn(pool=torch.tensor([5]))
    assert [type(known).__name__ for known in told[:2]] == ["Labelled", "Mixed"]
    assert torch.allclose(told[1].logits, says(START, seen(torch.zeros(2))), atol=1e-6)


@pytest.mark.parametrize("pool", [[], [5]])
def test_a_teacher_is_needed_for_what_is_mixed_only(pool):
    job = LocalJob(
        START, torch.tensor([1]), torch.tensor([0]), 1, (0.1,), 0,
        objective=make_objective("kcfu"), pool=torch.tensor(pool, dtype=torch.long),
    )  # fmt: skip
    assert needs_teacher(job) == bool(pool)


def test_a_teacher_stays_as_it_was():
    before = {name: value.clone() for name, value in TEACHER.items()}
    learn()
    assert all(torch.equal(TEACHER[name], value) for name, value in before.items())
