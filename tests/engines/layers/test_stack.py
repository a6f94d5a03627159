"""Layers' kernels against PyTorch. Without a GPU Triton interprets them, slowly but in the same arithmetic."""

import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
pytest.importorskip("triton", reason="Triton is not installed: the layers' kernels cannot run here")

from fedactive.data.preprocess import Normalise
from fedactive.engines import step_kernels
from fedactive.engines.branches import BranchStack
from fedactive.engines.layers.stack import LayerStack
from fedactive.engines.plan import plan_steps
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models.classifier import BatchNorm, Classifier

pytestmark = pytest.mark.filterwarnings("default")  # what Triton's compiler says is not ours
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """PyTorch would let cuDNN round to TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def convolution(into, out, size, stride=1, **more):
    return nn.Conv2d(into, out, size, stride, padding=size // 2, **more)


class Little(Classifier):
    name, summary, paper = "little", "", ""

    def __init__(self, *layers, features):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(features, 5)


class Residual(Little):
    """A block with a shortcut of its own, one without, and one that adds before any ReLU."""

    def __init__(self, into):
        wide = [convolution(into, 8, 3, bias=False), convolution(8, 24, 3, 2), convolution(24, 24, 3)]
        more = [convolution(8, 24, 1, 2), convolution(24, 24, 3), convolution(24, 24, 1)]
        norms = [BatchNorm(8), *(BatchNorm(24) for _ in range(5))]
        super().__init__(*wide, *more, *norms, features=24)

    def embed(self, images):
        part = [nn.Sequential(self.layers[i], self.layers[i + 6]) for i in range(6)]
        x = F.relu(part[0](images))
        x = F.relu(part[2](F.relu(part[1](x))) + part[3](x))
        x = F.relu(part[4](x) + x)
        return (x + part[5](x)).mean((2, 3))


class Separable(Little):
    """Depthwise convolutions of both strides and sizes, ReLU6, and a residual sum without ReLU."""

    def __init__(self, into):
        wide = [convolution(into, 8, 3, 2), convolution(8, 8, 3, groups=8), convolution(8, 24, 1, bias=False)]
        more = [
            convolution(24, 24, 3, 2, groups=24),
            convolution(24, 24, 5, groups=24),
            convolution(24, 24, 1),
        ]
        super().__init__(*wide, *more, *(BatchNorm(c) for c in (8, 8, 24, 24, 24, 24)), features=24)

    def embed(self, images):
        part = [nn.Sequential(self.layers[i], self.layers[i + 6]) for i in range(6)]
        x = part[2](F.relu6(part[1](F.relu6(part[0](images)))))
        x = F.relu(part[3](x))
        x = part[5](F.relu(part[4](x))) + x
        return x.mean(dim=(-1, -2))


class Pooled(Little):
    """Max-pooling before and after ReLU, and an embedding of several places."""

    def __init__(self, into, first=8):
        layers = [convolution(into, first, 3), convolution(first, 24, 3), BatchNorm(first), BatchNorm(24)]
        super().__init__(*layers, features=24 * 4)

    def embed(self, images):
        x = F.relu(F.max_pool2d(self.layers[2](self.layers[0](images)), 2), inplace=True)
        return F.max_pool2d(F.relu(self.layers[3](self.layers[1](x))), 2).flatten(1)


class PooledFirst(Pooled):
    """One whose first map is not stored."""

    def __init__(self, into):
        super().__init__(into, first=16)


def setting(kind, channels, size):
    """Random images, some of them with flat areas, where pooling meets equal values."""
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, channels, size, size), dtype=torch.uint8, generator=rng)
    images[:20, :, : size // 2] = 0
    labels = torch.randint(0, 5, (40,), generator=rng)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(channels).to(DEVICE)
    start = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for value in start.values():  # no weight may hide behind its initial 0 or 1
        if value.is_floating_point():
            value += 0.1 * torch.rand(value.shape, generator=rng).to(DEVICE)
    normalise = Normalise((channels, 1, 1), (0.5,) * channels, (0.25,) * channels, DEVICE)
    return model, images.to(DEVICE), labels, normalise, start, Recipe(batch_size=4)


@pytest.mark.parametrize(
    ("kind", "channels", "size"),
    [
        (Residual, 3, 8),
        (Residual, 1, 7),
        (Separable, 3, 16),
        (Separable, 1, 13),
        (Pooled, 3, 9),
        (Pooled, 1, 10),
        (PooledFirst, 3, 9),
        (PooledFirst, 1, 10),
    ],
)
def test_a_step_is_that_of_the_plain_model(kind, channels, size):
    model, images, labels, normalise, start, recipe = setting(kind, channels, size)
    jobs = [
        LocalJob(start, samples, labels[samples], 1, (0.1,), k)
        for k, samples in enumerate([torch.arange(4), torch.arange(10, 13), torch.arange(20, 21)])
    ]
    plan = plan_steps(jobs, 4, recipe, DEVICE)
    plain = BranchStack(model, images, normalise, recipe, 4, (False, False))
    fused = LayerStack(model, images, normalise, recipe, 4, (False, False))
    for one in (plain, fused):
        one.load(jobs)
    plain.step(plan[0, 0])
    fused.row.copy_(plan[0, 0])
    step_kernels.gather(fused)
    fused.gradients()
    step_kernels.descend(fused)

    for name in plain.layout.places:
        a, b = plain.layout.view(plain.gradient, name), fused.layout.view(fused.gradient, name)
        if name.endswith("bias") and len(a.shape) == 2 and not b.any():
            assert a.abs().max() < 1e-5, name  # of a convolution: BatchNorm takes it away
        else:
            assert (a - b).norm() < 5e-4 * a.norm() + 1e-6, name
    assert torch.allclose(plain.statistics, fused.statistics, rtol=1e-5, atol=1e-5)
    for one, other in zip(plain.weights, fused.weights, strict=True):
        assert all(torch.allclose(one[name], other[name], atol=1e-4) for name in one)
    assert plain.steps.tolist() == fused.steps.tolist() == [1, 1, 1, 0]
    assert all(torch.equal(plain.buffers[name], fused.buffers[name]) for name in plain.buffers)
