"""Layers' kernels against PyTorch. Without a GPU Triton interprets them, slowly but in the same arithmetic."""

import os
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
pytest.importorskip("triton", reason="Triton is not installed: the layers' kernels cannot run here")

from fedactive.data.preprocess import Normalise
from fedactive.engines import kernel_inference, step_kernels
from fedactive.engines.branches import BranchStack
from fedactive.engines.layers import first_launches, tiles
from fedactive.engines.layers import stack as layer_stack
from fedactive.engines.layers.stack import LayerStack
from fedactive.engines.lessons import places
from fedactive.engines.plan import Row, plan_steps
from fedactive.federated.inference import infer
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.federated.objective import make_objective
from fedactive.models import ModelSpec
from fedactive.models.classifier import BatchNorm, Classifier
from fedactive.registry import OBJECTIVES
from support.lacking import NO_GPU

pytestmark = pytest.mark.filterwarnings("default")  # what Triton's compiler says is not ours
CPU = torch.device("cpu")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """PyTorch would let cuDNN round to TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """Interpreted programs cost time by their number."""
    if DEVICE.type == "cpu":
        monkeypatch.setattr(first_launches, "PATCH_PARTS", 2)
        monkeypatch.setattr(first_launches, "BACK_PARTS", 2)
        monkeypatch.setattr(first_launches, "WINDOWS", 32)


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


def setting(kind, channels, size, batch=4, precision="fp32"):
    """Random images, some of them with flat areas, where pooling meets equal values."""
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, channels, size, size), dtype=torch.uint8, generator=rng)
    images[:20, :, : size // 2] = 0
    labels = torch.randint(0, 5, (40,), generator=rng)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(channels)
    start = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for value in start.values():  # no weight may hide behind its initial 0 or 1
        if value.is_floating_point():
            value += 0.1 * torch.rand(value.shape, generator=rng)
    jobs = [
        LocalJob(start, samples, labels[samples], 1, (0.1,), k)
        for k, samples in enumerate([torch.arange(batch), torch.arange(20, 21)])
    ]
    return model, images, channels, jobs, Recipe(batch_size=batch, precision=precision)


def make(stack, device, model, images, channels, jobs, recipe):
    normalise = Normalise((channels, 1, 1), (0.5,) * channels, (0.25,) * channels, device)
    things = (deepcopy(model).to(device), images.to(device), normalise, recipe, len(jobs) + 1)
    one = stack(*things, (False, False), jobs[0].objective)
    one.load(jobs)
    return one


def step_of_kernels(stack, plan):
    stack.row.copy_(plan[0, 0])
    step_kernels.gather(stack)()
    stack.lessons.prepare(stack.batch, Row(stack.row, stack.recipe).code, stack.targets)
    stack.learn()


SIZES = [(Residual, 3, 6), (Residual, 1, 5), (Residual, 1, 2), (Separable, 3, 8), (Separable, 1, 7)]
SIZES += [(Pooled, 3, 9), (PooledFirst, 3, 9), (PooledFirst, 1, 10)]


# On a GPU compiling takes long, and the second size of each model is there for the arithmetic of its edges.
@pytest.mark.parametrize(("kind", "channels", "size"), SIZES if DEVICE.type == "cpu" else SIZES[::2])
def test_a_step_is_that_of_the_plain_model(kind, channels, size):
    things = setting(kind, channels, size)
    *_, jobs, recipe = things
    plain, fused = make(BranchStack, CPU, *things), make(LayerStack, DEVICE, *things)
    plain.follow(plan_steps(jobs, 3, recipe, CPU)[0, :1])
    step_of_kernels(fused, plan_steps(jobs, 3, recipe, DEVICE))
    for name in plain.layout.places:
        a, b = plain.layout.view(plain.gradient, name), fused.layout.view(fused.gradient, name).cpu()
        if name.endswith("bias") and len(a.shape) == 2 and not b.any():
            assert a.abs().max() < 1e-5, name  # of a convolution: BatchNorm takes it away
        else:
            assert (a - b).norm() < 5e-4 * a.norm() + 1e-6, name
    assert torch.allclose(plain.statistics, fused.statistics.cpu(), rtol=1e-4, atol=1e-5)
    for one, other in zip(plain.weights, fused.weights, strict=True):
        assert all(torch.allclose(one[name], other[name].cpu(), atol=1e-4) for name in one)
    assert plain.steps.tolist() == fused.steps.tolist() == [1, 1, 0]
    assert all(torch.equal(plain.buffers[name], fused.buffers[name].cpu()) for name in plain.buffers)


def test_steps_that_are_made_together_are_those_of_the_plain_model(monkeypatch):
    monkeypatch.setattr(layer_stack, "STEPS", 2)
    *things, jobs, recipe = setting(PooledFirst, 1, 8)
    samples = [torch.arange(15, 24), torch.arange(8)]  # three batches, the last one short, and two
    jobs = [
        replace(job, samples=held, labels=held % 5, rates=(0.1,) * -(-len(held) // 4))
        for job, held in zip(jobs, samples, strict=True)
    ]
    plain, fused = (
        make(kind, device, *things, jobs, recipe)
        for kind, device in ((BranchStack, CPU), (LayerStack, DEVICE))
    )
    assert sorted(fused.run_steps) == [1, 2]
    for stack, device in ((plain, CPU), (fused, DEVICE)):
        stack.follow(plan_steps(jobs, 3, recipe, device)[0])
    assert plain.steps.tolist() == fused.steps.tolist() == [3, 2, 0]
    for one, other in zip(plain.weights, fused.weights, strict=True):
        assert all(torch.allclose(one[name], other[name].cpu(), atol=2e-4) for name in one)


def test_images_that_torch_gathers_are_stepped_through_one_by_one():
    *things, jobs, recipe = setting(PooledFirst, 1, 8)
    crops = replace(recipe, augment="crop")
    assert [len(make(LayerStack, DEVICE, *things, jobs, r).rows) for r in (recipe, crops)] == [4, 1]


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "cross_entropy"])
def test_a_step_with_another_objective_is_that_of_the_plain_model(name):
    """The second client has no pool, so that some places stay empty."""
    objective = make_objective(name)
    model, images, channels, jobs, recipe = setting(PooledFirst, 1, 8)
    jobs = [
        replace(job, objective=objective, fl_round=3, pool=torch.arange(10 * (1 - k), 20 * (1 - k)))
        for k, job in enumerate(jobs)
    ]
    jobs = [
        replace(job, teacher={n: 1.1 * v if v.dim() else v for n, v in job.start.items()}) for job in jobs
    ]
    things = (model, images, channels, jobs, recipe)
    plain, fused = make(BranchStack, CPU, *things), make(LayerStack, DEVICE, *things)
    plain.follow(plan_steps(jobs, 3, recipe, CPU)[0, :1])
    step_of_kernels(fused, plan_steps(jobs, 3, recipe, DEVICE))
    for name in plain.layout.places:
        a, b = plain.layout.view(plain.gradient, name), fused.layout.view(fused.gradient, name).cpu()
        if name.startswith("layers.0.bias") or name.startswith("layers.1.bias"):
            assert a.abs().max() < 1e-5 > b.abs().max(), name  # BatchNorm takes it away
        else:
            assert (a - b).norm() < 5e-4 * a.norm() + 1e-6, name
    assert torch.allclose(plain.statistics, fused.statistics.cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="interpreted without a GPU")
def test_a_turned_product_is_the_same(monkeypatch):
    things = setting(Pooled, 1, 8)
    *_, jobs, recipe = things
    gradients = []
    for turned in (False, True):
        chosen = tiles.product
        monkeypatch.setattr(tiles, "product", lambda *a, f=chosen, t=turned: f(*a) | {"TURNED": t})
        fused = make(LayerStack, DEVICE, *things)
        step_of_kernels(fused, plan_steps(jobs, 3, recipe, DEVICE))
        gradients.append(fused.gradient)
    assert (gradients[0] - gradients[1]).norm() < 1e-5 * gradients[0].norm()


@pytest.mark.parametrize("augment", ["none", "flip", "crop"])
def test_the_kernel_gathers_what_torch_does(augment):
    """Of rows with keys, which `crop` draws from, it takes the images as they are."""
    *things, jobs, recipe = setting(Pooled, 3, 9)
    recipe = replace(recipe, augment=augment)
    stack = make(LayerStack, DEVICE, *things, jobs, recipe)
    stack.row.copy_(plan_steps(jobs, 3, recipe, DEVICE)[0, 0])
    found = []
    for gather in (lambda one: step_kernels.gather(one)(), lambda one: one.gather(varied=augment == "flip")):
        gather(stack)
        here = stack.present[..., None, None, None]
        found.append((torch.where(here, stack.batch, 0), stack.targets.clone(), stack.present.clone()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))
    assert found[0][2].sum() == 5


@pytest.mark.parametrize("augment", ["flip", "crop"])
def test_their_own_accuracy_is_of_images_as_they_are(augment):
    *things, jobs, recipe = setting(Pooled, 1, 8)
    jobs = [replace(job, stop_accuracy=0.5) for job in jobs]
    found = []
    for kind, device in ((BranchStack, CPU), (LayerStack, DEVICE)):
        stack = make(kind, device, *things, jobs, replace(recipe, augment=augment))
        found.append(stack.own_accuracy().cpu())
    assert torch.equal(*found)


def test_inference_is_that_of_the_plain_model(monkeypatch):
    model, images, _, jobs, recipe = setting(Separable, 3, 8)
    monkeypatch.setattr(kernel_inference, "BATCH", 6)  # 8 images: one full batch and a part of one
    normalise = Normalise((3, 1, 1), (0.5,) * 3, (0.25,) * 3, DEVICE)
    weights = {name: value.to(DEVICE) for name, value in jobs[0].start.items()}
    images, model = images.to(DEVICE), model.to(DEVICE)
    run = kernel_inference.Inference(LayerStack, model, images, normalise, recipe)
    logits, z = run(weights, images[:8])
    model.load_state_dict(weights)
    expected, embeddings = infer(model, images[:8], normalise, "fp32")
    assert torch.allclose(z, embeddings, rtol=1e-4, atol=1e-4)
    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-3)


def test_how_well_clients_know_their_own_samples_is_what_the_plain_model_says():
    model, images, channels, jobs, recipe = setting(PooledFirst, 1, 9)
    samples = [torch.arange(6), torch.arange(20, 23)]
    jobs = [
        replace(job, samples=held, labels=torch.arange(len(held)) % 2, rates=(0.1,) * 2, stop_accuracy=0.9)
        for job, held in zip(jobs, samples, strict=True)
    ]
    plain = make(BranchStack, CPU, model, images, channels, jobs, recipe)
    fused = make(LayerStack, DEVICE, model, images, channels, jobs, recipe)
    for one in (plain, fused):
        one.parameters[1] *= 1.5  # another model for another client
    before = fused.statistics.clone()
    assert plain.own_accuracy()[:2].any()
    assert torch.allclose(fused.own_accuracy()[:2].cpu(), plain.own_accuracy()[:2])
    assert torch.equal(fused.statistics, before)
    assert fused.active.tolist() == [True, True, False]


@pytest.mark.parametrize(("name", "largest"), [("cross_entropy", 128), ("evidential", 128), ("kcfu", 64)])
def test_mixed_images_count_for_what_fits_into_the_kernels(name, largest):
    model, images = ModelSpec("cnn4", (3, 32, 32), 10).build(), torch.zeros(0, 3, 32, 32, dtype=torch.uint8)
    for batch in (largest, largest + 1):
        recipe = places(Recipe(batch_size=batch, precision="bf16"), make_objective(name))
        assert LayerStack.supports(model, images, recipe) == (batch == largest)


@pytest.mark.parametrize(
    ("side", "batch", "taken", "at_a_time"),
    [(32, 128, True, 1024), (224, 64, True, 668), (512, 64, True, 127), (1024, 64, False, 31)],
)
def test_no_map_has_more_values_than_32_bits_can_count(side, batch, taken, at_a_time):
    model = ModelSpec("resnet18", (3, side, side), 10).build()
    images = torch.zeros(0, 3, side, side, dtype=torch.uint8)
    recipe = Recipe(batch_size=batch, precision="bf16")
    assert LayerStack.supports(model, images, recipe) == taken
    assert kernel_inference.choose_batch_size(LayerStack, model, images, recipe) == at_a_time
    assert at_a_time * 64 * side**2 < 2**31


@pytest.mark.skipif(DEVICE.type == "cpu", reason=NO_GPU)  # bfloat16 and TF32 products
@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 5e-3), ("bf16", 5e-2)])
def test_reduced_precision_stays_near(precision, tolerance):
    gradients = []
    for kind in ("fp32", precision):
        *rest, jobs, recipe = setting(PooledFirst, 3, 9, batch=32, precision=kind)
        one = make(LayerStack, DEVICE, *rest, jobs, recipe)
        one.follow(plan_steps(jobs, 3, recipe, DEVICE)[0, :1])
        gradients.append(one.gradient[0].clone())
    exact, near = gradients
    assert (exact - near).norm() < tolerance * exact.norm()
