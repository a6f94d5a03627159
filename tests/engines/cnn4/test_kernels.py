"""cnn4's kernels against PyTorch. Without a GPU Triton interprets them, slowly but in the same arithmetic."""

import dataclasses
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
pytest.importorskip("triton", reason="Triton is not installed: cnn4's kernels cannot run here")

from fedactive.data.preprocess import Normalise
from fedactive.engines import kernel_inference as inference
from fedactive.engines import step_kernels
from fedactive.engines.branches import BranchStack
from fedactive.engines.cnn4 import stack
from fedactive.engines.plan import plan_steps
from fedactive.federated.inference import infer
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec
from support.lacking import NO_GPU

pytestmark = pytest.mark.filterwarnings("default")  # what Triton's compiler says is not ours
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """PyTorch would let cuDNN round to TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """Interpreted programs cost time by their number."""
    if DEVICE.type == "cpu":
        small = stack.Tuning(
            first_parts=2, first_windows=32, weight_parts=2, weight_positions=64, patch_parts=2
        )
        monkeypatch.setitem(stack.TUNING, torch.float32, small)


def setting(channels, size, batch):
    """Random images, some of them with flat areas, where pooling meets equal values."""
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, channels, size, size), dtype=torch.uint8, generator=rng)
    images[:20, :, : size // 2] = 0
    labels = torch.randint(0, 10, (40,), generator=rng)
    spec = ModelSpec("cnn4", (channels, size, size), 10)
    normalise = Normalise((channels, 1, 1), (0.5,) * channels, (0.25,) * channels, DEVICE)
    start = spec.initial_weights(rng)
    for value in start.values():  # no weight may hide behind its initial 0 or 1
        if value.is_floating_point():
            value += 0.1 * torch.rand(value.shape, generator=rng)
    model = spec.build().to(DEVICE)
    return model, images.to(DEVICE), labels, normalise, start, Recipe(batch_size=batch)


@pytest.mark.parametrize(("channels", "size"), [(3, 16), (1, 18)], ids=["3x16x16", "1x18x18 (an odd map)"])
def test_a_step_is_that_of_the_plain_model(channels, size):
    model, images, labels, normalise, start, recipe = setting(channels, size, 4)
    drift = {n: torch.ones_like(v) for n, v in start.items() if v.dim() and "running" not in n}
    jobs = [
        LocalJob(start, samples, labels[samples], 1, (0.1,), k, proximal=0.5, drift=drift)
        for k, samples in enumerate([torch.arange(4), torch.arange(10, 13)])
    ]
    plan = plan_steps(jobs, 3, recipe, DEVICE)
    plain = BranchStack(model, images, normalise, recipe, 3, (True, True))
    fused = stack.CNN4Stack(model, images, normalise, recipe, 3, (True, True))
    for one in (plain, fused):
        one.load(jobs)
        one.velocity.fill_(0.5)
    plain.step(plan[0, 0])
    fused.row.copy_(plan[0, 0])
    step_kernels.gather(fused)
    fused.gradients()
    step_kernels.descend(fused)

    assert torch.allclose(plain.batch, fused.batch, atol=1e-5)
    assert torch.equal(plain.present, fused.present)
    assert torch.equal(plain.targets, fused.targets)
    for name in plain.layout.places:
        a, b = plain.layout.view(plain.gradient, name), fused.layout.view(fused.gradient, name)
        if name.endswith("convolution.bias"):  # BatchNorm takes it away: rounding on one side, 0 on the other
            assert a.abs().max() < 1e-5
            assert not b.any()
        else:
            assert (a - b).norm() < 5e-4 * a.norm(), name
    assert torch.allclose(plain.statistics, fused.statistics, rtol=1e-5, atol=1e-5)
    assert torch.allclose(plain.parameters, fused.parameters, atol=1e-4)
    assert torch.allclose(plain.velocity, fused.velocity, rtol=1e-3, atol=1e-3)
    assert plain.steps.tolist() == fused.steps.tolist() == [1, 1, 0]
    assert all(torch.equal(plain.buffers[name], fused.buffers[name]) for name in plain.buffers)


def test_inference_is_that_of_the_plain_model(monkeypatch):
    model, images, _, normalise, start, recipe = setting(3, 16, 4)
    monkeypatch.setattr(inference, "BATCH", 6)  # 8 images: one full batch and a part of one
    weights = {name: value.to(DEVICE) for name, value in start.items()}
    logits, z = inference.Inference(stack.CNN4Stack, model, images, normalise, recipe)(weights, images[:8])
    model.load_state_dict(weights)
    expected, embeddings = infer(model, images[:8], normalise, "fp32")
    assert torch.allclose(z, embeddings, rtol=1e-4, atol=1e-4)
    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("side", "batch", "taken", "at_a_time"),
    [(32, 128, True, 1024), (224, 64, True, 1024), (512, 64, True, 511), (1024, 128, False, 127)],
)
def test_no_map_has_more_values_than_32_bits_can_count(side, batch, taken, at_a_time):
    model = ModelSpec("cnn4", (3, side, side), 10).build()
    images = torch.zeros(0, 3, side, side, dtype=torch.uint8)
    recipe = Recipe(batch_size=batch, precision="bf16")
    assert stack.CNN4Stack.supports(model, images, recipe) == taken
    assert inference.choose_batch_size(stack.CNN4Stack, model, images, recipe) == at_a_time
    first_map = 64 * (side // 2) ** 2
    assert stack.CNN4Stack.most_images(model, images.shape[1:]) * first_map < 2**31
    assert at_a_time * first_map < 2**31


def test_how_well_clients_know_their_own_samples_is_what_the_plain_model_says():
    model, images, labels, normalise, start, recipe = setting(1, 16, 4)
    jobs = [
        LocalJob(start, samples, labels[samples], 1, (0.1,) * 3, k, stop_accuracy=end)
        for k, (samples, end) in enumerate(
            [(torch.arange(6), 0.9), (torch.arange(20, 23), 0.9), (torch.arange(2), None)]
        )
    ]
    plain = BranchStack(model, images, normalise, recipe, 4, (False, False))
    fused = stack.CNN4Stack(model, images, normalise, recipe, 4, (False, False))
    for one in (plain, fused):
        one.load(jobs)
        one.parameters[1] *= 1.5  # another model for another client
    before = fused.statistics.clone()
    assert plain.own_accuracy()[0] > 0
    assert torch.allclose(fused.own_accuracy()[:2], plain.own_accuracy()[:2])
    assert torch.equal(fused.statistics, before)
    assert not fused.stop()  # the third may not
    assert fused.active.tolist() == [True, True, True, False]


@pytest.mark.skipif(DEVICE.type == "cpu", reason=NO_GPU)  # bfloat16 and TF32 products
@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 5e-3), ("bf16", 5e-2)])
def test_reduced_precision_stays_near(precision, tolerance):
    model, images, labels, normalise, start, recipe = setting(3, 32, 32)
    jobs = [LocalJob(start, torch.arange(40), labels, 1, (0.1, 0.1), 0)]
    gradients = []
    for kind in ("fp32", precision):
        one = stack.CNN4Stack(
            model, images, normalise, dataclasses.replace(recipe, precision=kind), 1, (False, False)
        )
        one.load(jobs)
        one.step(plan_steps(jobs, 1, recipe, DEVICE)[0, 0])
        gradients.append(one.gradient.clone())
    exact, near = gradients
    assert (exact - near).norm() < tolerance * exact.norm()
