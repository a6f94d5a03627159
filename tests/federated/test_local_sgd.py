"""Against numbers worked out by hand.

From W = b = 0 both classes have p = 1/2, so the gradient of row 0 is p - 1 = -0.5 (for W and b alike) and
one step of rate 0.1 gives W0 = b0 = 0.05, W1 = b1 = -0.05. The logits are then 0.1 and -0.1, so that
p0 = 1 / (1 + e^-0.2) = 0.549834 and the gradient is -0.450166.
"""

from dataclasses import replace

import pytest
import torch

from fedactive.data.preprocess import Normalise
from fedactive.federated.batches import draw_keys, shuffled
from fedactive.federated.local_sgd import LocalJob, Recipe, path_length, train
from support.tiny import PLAIN, Tiny, train_tiny


def w0(result) -> float:
    return result.weights["head.weight"][0].item()


def test_one_step():
    result = train_tiny(epochs=1)
    assert result.steps == 1
    assert result.weights["head.weight"].tolist() == [[pytest.approx(0.05)], [pytest.approx(-0.05)]]
    assert result.weights["head.bias"].tolist() == [pytest.approx(0.05), pytest.approx(-0.05)]


def test_momentum():
    # v = 0.9 · -0.5 - 0.450166 = -0.900166
    assert w0(train_tiny()) == pytest.approx(0.05 + 0.0900166, abs=1e-6)


def test_weight_decay():
    # g = -0.450166 + 0.5 · 0.05 = -0.425166, v = -0.45 - 0.425166
    assert w0(train_tiny(Recipe(momentum=0.9, weight_decay=0.5, augment="none"))) == pytest.approx(
        0.1375166, abs=1e-6
    )


def test_proximal_term_pulls_towards_the_start():
    # The start is 0 here, so μ = 0.5 acts like the weight decay above, from the second step on.
    assert w0(train_tiny(proximal=0.5)) == pytest.approx(0.1375166, abs=1e-6)
    start = {"head.weight": torch.full((2, 1), 3.0), "head.bias": torch.zeros(2)}
    assert w0(train_tiny(start=start, proximal=1e3, epochs=1)) == pytest.approx(
        3.05
    )  # no pull at the start itself


def test_drift_is_added_to_the_gradient():
    drift = {"head.weight": torch.tensor([[0.2], [0.0]]), "head.bias": torch.zeros(2)}
    result = train_tiny(epochs=1, drift=drift)
    assert result.weights["head.weight"].flatten().tolist() == pytest.approx([0.03, -0.05])


def test_each_step_has_its_own_rate():
    assert w0(train_tiny(rates=(0.1, 0.0))) == pytest.approx(0.05)


def test_the_short_last_batch_is_kept():
    job = {"samples": torch.tensor([0, 1, 2]), "labels": torch.tensor([0, 0, 1]), "epochs": 1}
    assert train_tiny(Recipe(batch_size=2, augment="none"), **job).steps == 2


def test_training_stops_once_the_accuracy_is_reached():
    job = {"samples": torch.tensor([0, 2]), "labels": torch.tensor([0, 1])}
    assert train_tiny(PLAIN, **job, epochs=50, rates=(0.1,) * 50, stop_accuracy=0.99).steps < 10
    assert train_tiny(PLAIN, **job, epochs=50, rates=(0.1,) * 50).steps == 50
    assert (
        train_tiny(PLAIN, **job, epochs=5, rates=(1e-9,) * 5, stop_accuracy=0.99).steps == 5
    )  # half is right


@pytest.mark.parametrize("stop", [0.7, 0.9, 0.95, 0.99])
def test_an_accuracy_of_just_that_is_enough(stop):
    wrong = round(100 * (1 - stop))  # of 100 samples that all look the same
    job = {"samples": torch.zeros(100, dtype=torch.long), "labels": (torch.arange(100) < wrong).long()}
    recipe = Recipe(batch_size=100, augment="none")
    assert train_tiny(recipe, **job, epochs=5, rates=(0.1,) * 5, stop_accuracy=stop).steps == 1


def test_a_client_without_labels_returns_what_it_got():
    none = torch.zeros(0, dtype=torch.long)
    result = train_tiny(samples=none, labels=none)
    assert result.steps == 0
    assert w0(result) == 0


def test_path_length_is_how_far_a_unit_gradient_moves_a_weight():
    assert path_length((0.1, 0.1, 0.1), momentum=0.0) == pytest.approx(0.3)
    assert path_length((0.1, 0.1, 0.1), momentum=0.9) == pytest.approx(0.1 * (1 + 1.9 + 2.71))


class Watching(Tiny):
    """Keeps what it was shown, and in which mode; has a layer that no loss depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = torch.nn.utils.skip_init(torch.nn.Linear, 1, 1, bias=False)
        self.dropout = torch.nn.Dropout(0.5)
        self.seen: list[tuple[bool, list[list[float]]]] = []

    def embed(self, images):
        self.seen.append((self.training, images.flatten(1).tolist()))
        return self.dropout(images[:, :, 0, 1]) if self.draws else images[:, :, 0, 1]


def watch(recipe=PLAIN, draws=False, **job):
    """Train on five images of two pixels, (0, 1), (0, 2) ... (0, 5)."""
    pixels = torch.tensor([[0, n] for n in range(1, 6)], dtype=torch.uint8).view(5, 1, 1, 2)
    model = Watching()
    model.draws = draws
    start = {"head.weight": torch.ones(2, 1), "head.bias": torch.zeros(2), "idle.weight": torch.ones(1, 1)}
    values = {"samples": torch.arange(5), "labels": torch.tensor([0, 1, 0, 1, 0])}
    values |= {"epochs": 2, "rates": (0.1,) * 10, "shuffle": 3} | job
    normalise = Normalise((1, 1, 2), [0.0], [1 / 255], torch.device("cpu"))
    return model, train(model, pixels, normalise, recipe, LocalJob(start=start, **values))


def test_every_epoch_shows_every_sample_once_in_the_order_of_its_seed():
    model, result = watch(replace(PLAIN, batch_size=2))
    assert [len(images) for _, images in model.seen] == [2, 2, 1, 2, 2, 1]
    assert result.steps == 6
    shown = [round(image[1]) - 1 for _, images in model.seen for image in images]
    assert shown == shuffled(3, 2, 5).flatten().tolist()


def test_images_are_mirrored_as_the_seed_says_or_not_at_all():
    for augment in ("flip", "none"):
        model, _ = watch(replace(PLAIN, augment=augment))
        found = [image[0] > 0 for _, images in model.seen for image in images]
        assert found == ((draw_keys(3, 2, 5) < 0).flatten().tolist() if augment == "flip" else [False] * 10)


def test_training_and_looking_have_each_their_mode():
    model, _ = watch(stop_accuracy=1.0, rates=(1e-9,) * 10)
    assert [training for training, _ in model.seen] == [True, False, True, False]


def test_what_no_loss_depends_on_only_decays():
    _, result = watch(replace(PLAIN, momentum=0.0, weight_decay=0.5))
    assert result.weights["idle.weight"].item() == pytest.approx(0.95**2)


def test_what_a_model_draws_comes_from_the_seed_of_the_job():
    def weight(**job):
        return watch(draws=True, **job)[1].weights["head.bias"].tolist()

    assert weight() == weight()
    assert weight() != weight(shuffle=4)


def test_the_recipe_is_the_papers_unless_told_otherwise():
    assert Recipe() == Recipe(
        batch_size=64, momentum=0.9, weight_decay=1e-5, augment="flip", precision="fp32"
    )
