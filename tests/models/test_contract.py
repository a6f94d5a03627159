"""Any model that keeps the contract trains alike on every engine; what does not is refused by name."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedactive.data.preprocess import Normalise
from fedactive.engines import make_engine
from fedactive.engines.batched import BatchedEngine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.errors import UserError
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.laboratory.run import run
from fedactive.models import MODELS, BatchNorm, Classifier, ModelSpec, register
from fedactive.models.contract import check_model, why_not_batched
from fedactive.registry import load_plugin
from support.documents import plugin_from

CPU = torch.device("cpu")
DEEP = ("mobilenet", "efficientnet_lite0")  # end in maps of 1x1, of which BatchNorm makes much of rounding


@pytest.fixture
def vit(tmp_path):
    load_plugin(plugin_from("MODELS.md", tmp_path))
    return ModelSpec("vit", (1, 8, 8), 10)


def jobs(spec, digits, sizes=(40, 29)):
    """One step of each client: in a second one rounding would grow, for maps are 1x1 and batches small."""
    start = spec.initial_weights(torch.Generator().manual_seed(3))
    return [
        LocalJob(start, torch.arange(k, k + n), digits.train_labels[k : k + n], 1, (0.05,), k)
        for k, n in enumerate(sizes)
    ]


def assert_engines_agree(spec, digits, tolerance):
    """Parallel bit for bit; batched up to rounding, measured by how far the step goes."""
    recipe, work = Recipe(augment="none"), jobs(spec, digits)
    with (
        SequentialEngine(spec, digits, recipe, CPU) as sequential,
        ParallelEngine(spec, digits, recipe, workers=1) as parallel,
        BatchedEngine(spec, digits, recipe, CPU) as batched,
    ):
        wanted, same, close = (engine.train(work) for engine in (sequential, parallel, batched))
    for job, a, b, c in zip(work, wanted, same, close, strict=True):
        assert all(torch.equal(value, b.weights[name]) for name, value in a.weights.items())
        assert all(value.dtype == c.weights[name].dtype for name, value in a.weights.items())
        step, off = distance(a.weights, job.start), distance(a.weights, c.weights)
        assert step > 0.01
        assert off < tolerance * step, (off, step)


def distance(a, b):
    return sum((a[name].double() - b[name].double()).square().sum().item() for name in a) ** 0.5


@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_the_contract(name):
    check_model(name)
    check_model(name, (3, 32, 32))


@pytest.mark.parametrize("name", MODELS)
def test_engines_agree_on_every_model(name, digits):
    assert_engines_agree(ModelSpec(name, (1, 8, 8), 10), digits, 0.1 if name in DEEP else 1e-3)


def test_published_statistics_stay_on_every_engine(digits):
    spec, recipe = (
        ModelSpec("efficientnet_lite0", (1, 8, 8), 10, weights="pretrained"),
        Recipe(augment="none"),
    )
    work = jobs(spec, digits)
    assert_engines_agree(spec, digits, 0.01)
    for engine in (SequentialEngine, BatchedEngine):
        for job, result in zip(work, engine(spec, digits, recipe, CPU).train(work), strict=True):
            moved = {
                name for name, value in result.weights.items() if not torch.equal(value, job.start[name])
            }
            assert moved == {name for name, _ in spec.build().named_parameters()}


def test_engines_agree_on_the_documents_transformer(vit, digits):
    check_model("vit")
    assert_engines_agree(vit, digits, 1e-3)


def test_every_parameter_of_a_transformer_follows_the_seed(vit):
    one, again, two = (vit.initial_weights(torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    drawn = [name for name, value in one.items() if value.unique().numel() > 1]
    assert {"position", "blocks.0.self_attn.in_proj_weight"} <= set(drawn)
    for name in drawn:
        assert torch.equal(one[name], again[name])
        assert not torch.equal(one[name], two[name]), name


def test_initial_weights_are_the_same_in_another_process(vit, tmp_path):
    program = f"""
import torch
from pathlib import Path
from fedactive.models import ModelSpec
from fedactive.registry import load_plugin
torch.rand(17)
load_plugin(Path({str(tmp_path / "my_model.py")!r}))
weights = ModelSpec("vit", (1, 8, 8), 10).initial_weights(torch.Generator().manual_seed(5))
print(sum(value.double().sum().item() for value in weights.values()))
"""
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    here = vit.initial_weights(torch.Generator().manual_seed(5))
    assert float(there) == sum(value.double().sum().item() for value in here.values())


def test_a_run_with_the_documents_model_and_default_workers(vit, small, tmp_path):
    here, there = (small(model="vit", rounds=2, workers=n, runs_dir=tmp_path / str(n)) for n in (1, 0))
    here, there = run(here), run(there)
    assert here.metrics.equals(there.metrics)
    assert here.selections.equals(there.selections)


class Odd(Classifier):
    """One layer, to which tests add what is odd."""

    name, summary, paper = "odd", "", ""

    def __init__(self, input_shape, classes):
        super().__init__()
        self.layer = nn.Linear(int(np.prod(input_shape)), 6)
        self.head = nn.Linear(6, classes)

    def embed(self, images):
        return self.layer(images.flatten(1)).relu()


def with_buffers(model):
    model.register_buffer("table", torch.linspace(0, 1, 6, dtype=torch.float64))
    model.register_buffer("mask", torch.tensor([True, False, True, True, False, True]))
    model.register_buffer("number", torch.tensor(7, dtype=torch.int16))


def odd(change):
    """A registered model that `change` has changed."""

    def __init__(self, input_shape, classes):  # noqa: N807
        Odd.__init__(self, input_shape, classes)
        change(self)

    return register(type("Changed", (Odd,), {"__init__": __init__, "name": "odd"}))


def test_buffers_of_any_kind_survive_every_engine(digits):
    cls = odd(with_buffers)
    spec, recipe = ModelSpec("odd", (1, 8, 8), 10), Recipe(augment="none")
    cls.__module__ = "elsewhere"
    for engine in (SequentialEngine(spec, digits, recipe, CPU), BatchedEngine(spec, digits, recipe, CPU)):
        for result in engine.train(jobs(spec, digits)):
            assert torch.equal(result.weights["table"], torch.linspace(0, 1, 6, dtype=torch.float64))
            assert result.weights["mask"].tolist() == [True, False, True, True, False, True]
            assert result.weights["number"].item() == 7
            assert result.weights["number"].dtype == torch.int16


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.layer.double(), "parameter layer.weight is torch.float64"),
        (lambda m: m.layer.weight.requires_grad_(False), "parameter layer.weight is frozen"),
        (lambda m: setattr(m, "again", m.layer), "layer.weight and again.weight are the same tensor"),
        (lambda m: m.register_buffer("x", torch.ones(1), persistent=False), "buffer x is not persistent"),
        (lambda m: setattr(m, "head", nn.Linear(6, 3)), "must have a bias and 10 outputs"),
        (lambda m: setattr(m, "head", nn.Linear(6, 10, bias=False)), "must have a bias and 10 outputs"),
        (lambda m: setattr(m, "head", nn.Identity()), "whose `head` is a torch.nn.Linear"),
    ],
)
def test_what_no_engine_can_train_is_refused_by_name(digits, change, reason):
    odd(change)
    with pytest.raises(UserError, match=f"model odd: .*{reason}"):
        make_engine(ModelSpec("odd", (1, 8, 8), 10), digits, Recipe(), "cpu", 1, 3)


class Counting(nn.Module):
    """Counts its batches."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x):
        if self.training:
            self.seen += 1
        return x


def in_between(part):
    def change(model):
        model.layer = nn.Sequential(nn.Linear(64, 6), part)

    return change


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (nn.BatchNorm1d(6), "depends on the others"),
        (nn.Dropout(0.5), "draws random numbers"),
        (Counting(), "layer.1.seen changes in training"),
    ],
)
def test_what_the_batched_engine_cannot_train_alike_is_refused_by_name(digits, part, reason):
    odd(in_between(part))
    with pytest.raises(UserError, match=f"model odd cannot be trained for many clients at once: .*{reason}"):
        BatchedEngine(ModelSpec("odd", (1, 8, 8), 10), digits, Recipe(), CPU)


def test_dropout_draws_from_the_clients_seed(digits):
    odd(in_between(nn.Dropout(0.5)))
    spec, recipe = ModelSpec("odd", (1, 8, 8), 10), Recipe(augment="none")
    work = jobs(spec, digits)
    with SequentialEngine(spec, digits, recipe, CPU) as engine:
        forwards, backwards = engine.train(work), engine.train(work[::-1])[::-1]
    for a, b in zip(forwards, backwards, strict=True):
        assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)


def test_ours_may_mix_rows():
    odd(lambda model: setattr(model, "layer", nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *normed())))
    assert why_not_batched(ModelSpec("odd", (1, 8, 8), 3).build(), (1, 8, 8)) == ""


def normed():
    return BatchNorm(1), nn.Flatten(), nn.Linear(64, 6)


def test_a_model_of_the_users_own_script_is_trained_without_workers(digits):
    odd(lambda model: None).__module__ = "__main__"
    with pytest.warns(UserWarning, match="workers cannot import model odd"):
        engine = make_engine(ModelSpec("odd", (1, 8, 8), 10), digits, Recipe(), "cpu", 2, 3)
    assert isinstance(engine, SequentialEngine)


def test_normalise_is_what_models_see():
    """Images reach a model normalised: mean 0.5 and deviation 0.5 of pixels make -1 of black."""
    assert (
        Normalise((1, 2, 2), (0.5,), (0.5,), CPU)(torch.zeros(1, 1, 2, 2, dtype=torch.uint8)).unique().item()
        == -1
    )
