"""What a model is made of, as the layers' kernels see it, and why they leave others alone."""

import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedactive.engines.layers.network import Convolution, Join, network_of
from fedactive.engines.layers.trace import OtherLayerError
from fedactive.models import ModelSpec
from fedactive.models.classifier import BatchNorm, Classifier
from fedactive.models.spec import seed_generators


def steps_of(name, size=32):
    return network_of(ModelSpec(name, (3, size, size), 10).build(), (3, size, size)).steps


def test_resnet18_is_convolutions_and_joins():
    steps = steps_of("resnet18")
    convolutions = [step for step in steps if isinstance(step, Convolution)]
    joins = [step for step in steps if isinstance(step, Join)]
    assert len(convolutions) == 20
    assert [step.stride for step in convolutions].count(2) == 6
    assert len([step for step in joins if len(step.raw) == 2]) == 3  # blocks with a shortcut of their own
    assert len([step for step in joins if step.other is not None]) == 5
    assert all(step.relu == "relu" for step in joins)
    assert (joins[-1].shape.height, joins[-1].shape.channels) == (4, 512)


def test_mobilenet_has_depthwise_convolutions():
    assert [step.depthwise for step in steps_of("mobilenet") if isinstance(step, Convolution)].count(
        True
    ) == 13


def test_cnn4_pools_where_its_maps_are_large_enough():
    assert [step.pooled for step in steps_of("cnn4") if isinstance(step, Join)] == [True] * 4
    assert [step.pooled for step in steps_of("cnn4", 8) if isinstance(step, Join)] == [True] * 3 + [False]


class Odd(Classifier):
    """A block of known layers, and `more` after it."""

    name, summary, paper = "odd", "", ""

    def __init__(self, more, **settings):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, **({"kernel_size": 3, "padding": 1} | settings))
        self.norm, self.more = BatchNorm(8), more
        self.head = nn.Linear(8, 10)

    def embed(self, images):
        return self.more(self, F.relu(self.norm(self.convolution(images)))).mean((2, 3))


@pytest.mark.parametrize(
    ("more", "settings", "reason"),
    [
        (lambda model, x: torch.sigmoid(x), {}, "torch.sigmoid"),
        (lambda model, x: F.avg_pool2d(x, 2), {}, "avg_pool2d"),
        (lambda model, x: x * 2, {}, "mul"),
        (
            lambda model, x: F.conv2d(x, model.convolution.weight[:, :1].repeat(1, 8, 1, 1), padding=1),
            {},
            "computed",
        ),
        (lambda model, x: F.relu(x), {}, "a ReLU that does not follow a BatchNorm or a sum"),
        (lambda model, x: F.max_pool2d(x, 3, 1), {}, "a max-pooling that is not 2x2"),
        (lambda model, x: x if model.training else x + x, {}, "differs between training and evaluation"),
        (lambda model, x: x if x.max() > 0 else -x, {}, "Tensor.max"),
        (lambda model, x: x.chunk(2, 1)[0], {}, "Tensor.chunk"),
        (lambda model, x: x.__setitem__(0, 0.0) or x, {}, "Tensor.__setitem__"),
        (lambda model, x: x if x.tolist() else -x, {}, "Tensor.tolist"),
        (lambda model, x: x if torch.equal(x, x) else -x, {}, "equal"),
        (lambda model, x: x if 7.5 in x else -x, {}, "Tensor.__contains__"),
        (lambda model, x: x if "7.5" in str(x) else -x, {}, "Tensor.__repr__"),
        (lambda model, x: x if "7.5" in f"{x}" else -x, {}, "Tensor.__format__"),
        (lambda model, x: x if x else -x, {}, "fails when it is tried"),
        (lambda model, x: x, {"kernel_size": 7, "padding": 3}, "a convolution 7x7 in 1 groups"),
        (lambda model, x: x, {"stride": 3}, "whose stride is above 2"),
        (lambda model, x: model.norm(x), {}, "a BatchNorm that does not follow a convolution"),
    ],
)
def test_other_layers_are_named(more, settings, reason):
    with torch.random.fork_rng(devices=[]):
        model = Odd(more, **settings)
    with pytest.raises(OtherLayerError, match=reason):
        network_of(model, (3, 8, 8))


def test_batchnorm_with_fixed_statistics_is_another_layer():
    model = ModelSpec("cnn4", (3, 8, 8), 10).build()
    network_of(model, (3, 8, 8))
    model.blocks[1].norm.fixed = True
    with pytest.raises(OtherLayerError, match="a BatchNorm with its own settings"):
        network_of(model, (3, 8, 8))


def test_what_a_model_draws_while_it_is_read_is_drawn_again():
    with torch.random.fork_rng(devices=[]):
        model = Odd(lambda model, x: F.dropout(x, training=model.training))
    before = torch.get_rng_state()
    with pytest.raises(OtherLayerError, match="dropout"):
        network_of(model, (3, 8, 8))
    assert torch.equal(before, torch.get_rng_state())


def test_another_thread_does_not_draw_while_a_network_is_read():
    """There is one global generator, and reading restores it at a time when the other would be drawing."""
    begun, early, drawing = Event(), [], []

    def draw():
        with seed_generators(1):
            begun.set()
            return torch.rand(8)

    def begin_to_draw(model, x):
        if not drawing:
            drawing.append(other.submit(draw))
            early.append(begun.wait(0.5))
        return x

    with ThreadPoolExecutor(1) as other:
        with torch.random.fork_rng(devices=[]):
            model = Odd(begin_to_draw)
        network_of(model, (3, 8, 8))
    assert early == [False]
    assert torch.equal(drawing[0].result(), torch.rand(8, generator=torch.Generator().manual_seed(1)))


def test_reading_a_network_does_not_load_the_compiler():
    """It takes seconds to import, and known layers do not need it."""
    code = """
import sys
from fedactive.engines.layers.network import network_of
from fedactive.models import ModelSpec
network_of(ModelSpec("cnn4", (3, 32, 32), 10).build(), (3, 32, 32))
print("torch._dynamo" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_large_images_cost_no_memory():
    """With values the maps of this one would take 20 GB."""
    before = most_memory()
    assert steps_of("resnet18", 1024)[0].shape.height == 1024
    assert most_memory() - before < 2**30


def most_memory():
    """Return the most bytes that this process has taken."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # KiB


def test_features_are_left_alone():
    with pytest.raises(OtherLayerError, match="not images"):
        network_of(ModelSpec("mlp", (12,), 10).build(), (12,))
    with pytest.raises(OtherLayerError, match="a linear layer that is not the head"):
        network_of(ModelSpec("mlp", (3, 8, 8), 10).build(), (3, 8, 8))
    with pytest.raises(OtherLayerError, match="not of the last map"):
        network_of(ModelSpec("linear", (3, 8, 8), 10).build(), (3, 8, 8))
