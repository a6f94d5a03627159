"""What a model must keep so that every engine trains it alike.

`require_sound` is called before any work and refuses a model by name. `check_model` is for the tests of your
own model:

    from fedactive.models.contract import check_model
    check_model("mine")
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedactive.errors import UserError
from fedactive.models.classifier import BatchNorm, Classifier
from fedactive.models.spec import ModelSpec, seed_generators

ROWS = 16  # of the batch that models are tested with; with fewer, BatchNorm amplifies rounding
TOLERANCE = 1e-2  # of logits of order 1; a dependence on other rows shows at that order


def require_sound(model: Classifier, spec: ModelSpec) -> None:
    """Raise UserError, with the reason, for a model that engines cannot train as it is meant."""
    if reason := problem_of(model, spec):
        raise UserError(f"model {spec.name}: {reason}")


def problem_of(model: Classifier, spec: ModelSpec) -> str:
    """Say why the model cannot be trained here; empty if it can."""
    if not isinstance(model, Classifier) or not isinstance(getattr(model, "head", None), nn.Linear):
        return "it must be a fedactive.models.Classifier whose `head` is a torch.nn.Linear"
    if model.head.bias is None or model.head.out_features != spec.classes:
        return f"its head must have a bias and {spec.classes} outputs, one for each class"
    parameters = dict(model.named_parameters(remove_duplicate=False))
    seen: dict[int, str] = {}
    for name, value in parameters.items():
        if value.dtype != torch.float32:
            return f"parameter {name} is {value.dtype}; engines train torch.float32"
        if not value.requires_grad:
            return f"parameter {name} is frozen; make it a buffer, which no engine trains"
        if id(value) in seen:
            return f"parameters {seen[id(value)]} and {name} are the same tensor; engines keep them apart"
        seen[id(value)] = name
    kept = model.state_dict()
    for name, _ in model.named_buffers():
        if name not in kept:
            return f"buffer {name} is not persistent, so it would not travel with the weights"
    return ""


def draws_in_training(model: Classifier, input_shape: tuple[int, ...]) -> bool:
    """Return whether a training pass draws random numbers, as dropout does."""
    images = example_images(input_shape)[:2]
    outputs = []
    for seed in (1, 2):
        with seed_generators(seed), torch.no_grad():
            outputs.append(deepcopy(model).cpu().train()(images)[0])
    return not torch.equal(*outputs)


def why_not_batched(model: Classifier, input_shape: tuple[int, ...]) -> str:
    """Say why clients cannot share steps in which some rows are empty; an empty text if they can.

    The model is tested: its outputs must not depend on rows that are marked as empty, and no buffer but
    BatchNorm's statistics may change.
    """
    if draws_in_training(model, input_shape):
        return "it draws random numbers in training, as dropout does"
    images = example_images(input_shape)
    alone, shared = (deepcopy(model).cpu().train() for _ in range(2))
    before = {name: value.clone() for name, value in shared.state_dict().items()}
    with torch.no_grad():
        wanted, _ = alone(images)
        present = torch.arange(2 * ROWS) < ROWS
        padded = torch.cat([images, 100 * torch.ones_like(images)])
        state = dict(shared.state_dict()) | empty_rows(shared, present)
        found, _ = functional_call(shared, state, (padded,))
    if not torch.allclose(found[:ROWS], wanted, atol=TOLERANCE):
        return "its output for one image depends on the others; only in fedactive.models.BatchNorm it may"
    for name, value in alone.state_dict().items():
        owner = alone.get_submodule(name.rpartition(".")[0])
        if not isinstance(owner, BatchNorm) and not torch.equal(value, before[name]):
            return f"its buffer {name} changes in training; only those of fedactive.models.BatchNorm may"
    return ""


def empty_rows(model: Classifier, present: Tensor) -> dict[str, Tensor]:
    """Make the buffers that tell every `BatchNorm` which rows of a batch count."""
    found: dict[str, Tensor] = {}
    for name, part in model.named_modules():
        if isinstance(part, BatchNorm):
            found[f"{name}.present"] = present
            found[f"{name}.mean_after"] = part.running_mean.clone()
            found[f"{name}.variance_after"] = part.running_var.clone()
    return found


def check_model(name: str, input_shape: tuple[int, ...] = (1, 8, 8), options: str = "") -> None:
    """Test a registered model; AssertionError or UserError says what it breaks."""
    spec = ModelSpec(name, input_shape, 3, options)
    before = torch.random.get_rng_state()
    model = spec.build()
    require_sound(model, spec)
    first, again, other = (spec.initial_weights(torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    for key, value in first.items():
        assert torch.equal(value, again[key]), f"{key} differs between two models of the same seed"
    assert any(not torch.equal(first[key], other[key]) for key in first), "the seed changes nothing"
    model.load_state_dict(first)
    for count in (1, ROWS):  # the last batch of an epoch may be a single sample
        images = example_images(input_shape)[:count]
        for mode in (model.train(), model.eval()):
            logits, z = mode(images)
            assert logits.shape == (count, 3), f"logits of shape {tuple(logits.shape)}, not {(count, 3)}"
            assert z.dim() == 2, f"embedding of shape {tuple(z.shape)}, not (images, d)"
            assert torch.allclose(logits, model.head(z), atol=TOLERANCE), "the logits are not head(z)"
            assert bool(torch.isfinite(logits).all()), "logits are not finite"
    with torch.no_grad():
        assert torch.equal(model.eval()(images)[0], model(images)[0]), "evaluation is random"
    assert torch.equal(before, torch.random.get_rng_state()), "torch's global generator was used"


def example_images(input_shape: tuple[int, ...]) -> Tensor:
    return torch.randn(ROWS, *input_shape, generator=torch.Generator().manual_seed(0))
