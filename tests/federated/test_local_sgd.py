"""Against numbers worked out by hand.

From W = b = 0 both classes have p = 1/2, so the gradient of row 0 is p - 1 = -0.5 (for W and b alike) and
one step of rate 0.1 gives W0 = b0 = 0.05, W1 = b1 = -0.05. The logits are then 0.1 and -0.1, so that
p0 = 1 / (1 + e^-0.2) = 0.549834 and the gradient is -0.450166.
"""

import pytest
import torch

from fedactive.data.preprocess import Normalise
from fedactive.federated.local_sgd import Recipe, infer, path_length
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
    assert w0(train_tiny(Recipe(momentum=0.9, weight_decay=0.5, flip=False))) == pytest.approx(
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
    assert train_tiny(Recipe(batch_size=2, flip=False), **job).steps == 2


def test_training_stops_once_the_accuracy_is_reached():
    job = {"samples": torch.tensor([0, 2]), "labels": torch.tensor([0, 1])}
    assert train_tiny(PLAIN, **job, epochs=50, rates=(0.1,) * 50, stop_accuracy=0.99).steps < 10
    assert train_tiny(PLAIN, **job, epochs=50, rates=(0.1,) * 50).steps == 50


@pytest.mark.parametrize("stop", [0.7, 0.9, 0.95, 0.99])
def test_an_accuracy_of_just_that_is_enough(stop):
    wrong = round(100 * (1 - stop))  # of 100 samples that all look the same
    job = {"samples": torch.zeros(100, dtype=torch.long), "labels": (torch.arange(100) < wrong).long()}
    recipe = Recipe(batch_size=100, flip=False)
    assert train_tiny(recipe, **job, epochs=5, rates=(0.1,) * 5, stop_accuracy=stop).steps == 1


def test_a_client_without_labels_returns_what_it_got():
    none = torch.zeros(0, dtype=torch.long)
    result = train_tiny(samples=none, labels=none)
    assert result.steps == 0
    assert w0(result) == 0


def test_path_length_is_how_far_a_unit_gradient_moves_a_weight():
    assert path_length((0.1, 0.1, 0.1), momentum=0.0) == pytest.approx(0.3)
    assert path_length((0.1, 0.1, 0.1), momentum=0.9) == pytest.approx(0.1 * (1 + 1.9 + 2.71))


class Counting(Tiny):
    """Keeps how many images came at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def embed(self, images):
        self.counts.append(len(images))
        return images[:, :, 0, 0]


@pytest.mark.parametrize(
    ("side", "images", "counts"),
    [
        (1, 600, [512, 88]),
        (28, 600, [512, 88]),
        (32, 600, [512, 88]),
        (64, 300, [128, 128, 44]),
        (224, 25, [10, 10, 5]),
        (1024, 2, [1, 1]),
        (1024, 0, [0]),
    ],
)
def test_large_images_are_looked_at_fewer_at_a_time(side, images, counts):
    model = Counting()
    pixels = torch.zeros(images, 1, side, side, dtype=torch.uint8)
    logits, embeddings = infer(model, pixels, Normalise([0.0], [1.0], torch.device("cpu")), "fp32")
    assert len(logits) == len(embeddings) == images
    assert model.counts == counts
