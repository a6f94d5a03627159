"""The batched engine on a GPU; everything here is skipped where there is none."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import nn

from fedactive.data.dataset import Dataset
from fedactive.engines import make_engine, own_stream
from fedactive.engines.batched import BatchedEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.evaluation import evaluate
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.federated.objective import make_objective
from fedactive.models import Classifier, ModelSpec, register
from fedactive.models.classifier import BatchNorm
from fedactive.registry import OBJECTIVES, load_plugin
from support.documents import plugin_from
from support.lacking import NO_GPU

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU),
    pytest.mark.filterwarnings("default"),  # what the compilers of torch and Triton say is not ours
]
GPU = torch.device("cuda")


def noise(size=32):
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2000, 3, size, size), dtype=torch.uint8, generator=rng)
    labels = torch.randint(0, 10, (2000,), generator=rng)
    return Dataset(
        "noise", images, labels, images[:100], labels[:100], tuple("0123456789"), (0.5,) * 3, (0.25,) * 3
    )


def jobs(spec, sizes, **changes):
    start = {n: v.to(GPU) for n, v in spec.initial_weights(torch.Generator().manual_seed(1)).items()}
    labels = noise().train_labels
    made = []
    for k, size in enumerate(sizes):
        samples = torch.arange(k, k + size)
        steps = -(-size // 64)
        made.append(LocalJob(start, samples, labels[samples], 1, (0.01,) * steps, 70 + k, **changes))
    return made


def furthest(a, b):
    return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)


class Tiny(Classifier):
    """For what is compiled anew in each test: a large model would only take longer to compile."""

    name, summary, paper = "tiny", "", ""

    def __init__(self, input_shape, classes):
        super().__init__()
        self.layer, self.norm = nn.Conv2d(input_shape[0], 16, 3, padding=1), BatchNorm(16)
        self.head = nn.Linear(16, classes)

    def embed(self, images):
        return nn.functional.relu(self.norm(self.layer(images))).mean((2, 3))


@cache
def make_both(model, precision):
    """Both engines, made once: compiling takes most of the time of these tests."""
    spec, recipe = ModelSpec(model, (3, 16, 16), 10), Recipe(precision=precision)
    batched = make_engine(spec, noise(16), recipe, "cuda", 0, 5)
    assert isinstance(batched, BatchedEngine)
    return spec, SequentialEngine(spec, noise(16), recipe, GPU), batched


def engines(model, precision):
    if model == "tiny":
        register(Tiny)
    both = make_both(model, precision)
    # A process has one precision, which its first engine sets; here others have been made since.
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    return both


@pytest.fixture(scope="module", autouse=True)
def closed_at_the_end():
    yield
    make_both.cache_clear()


def moved_apart(start, one, other):
    """The distance between two results, as a share of the way that the first has gone."""
    ways = [
        torch.cat([(a[n].double() - b[n].double()).flatten() for n in a])
        for a, b in ((one, start), (one, other))
    ]
    return float(ways[1].norm() / ways[0].norm())


# Every line is an engine's way to train a model: compiled branches in fp32, the layers' kernels otherwise.
LINES = [
    ("cnn4", "fp32", 1e-3),
    ("cnn4", "tf32", 3e-2),
    ("cnn4", "bf16", 2e-1),
    ("resnet18", "tf32", 3e-2),
    ("resnet18", "bf16", 2e-1),
    ("mobilenet", "tf32", 3e-1),  # rounding its products to TF32 moves it by a tenth, in any engine
    ("mobilenet", "bf16", 5e-1),
]


@pytest.mark.parametrize(("model", "precision", "tolerance"), LINES)
def test_it_agrees_with_the_sequential_engine(model, precision, tolerance):
    spec, sequential, batched = engines(model, precision)
    work = jobs(spec, (128, 64, 1, 0, 33))
    for job, one, other in zip(work, sequential.train(work), batched.train(work), strict=True):
        assert one.steps == other.steps
        if one.steps:
            assert moved_apart(job.start, one.weights, other.weights) < tolerance


@pytest.mark.parametrize("changes", [{"proximal": 0.1}, {"stop_accuracy": 0.11}], ids=str)
def test_it_agrees_in_all_kinds_of_training(changes):
    spec, sequential, batched = engines("cnn4", "tf32")
    work = jobs(spec, (128, 64, 1, 0, 33), **changes)
    for job, one, other in zip(work, sequential.train(work), batched.train(work), strict=True):
        assert one.steps == other.steps
        if one.steps:
            assert moved_apart(job.start, one.weights, other.weights) < 3e-2


@pytest.mark.parametrize(("model", "precision", "tolerance"), [("tiny", "fp32", 1e-3), *LINES[1:3]])
@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "cross_entropy"])
def test_it_agrees_on_every_objective(name, model, precision, tolerance):
    spec, sequential, batched = engines(model, precision)
    teacher = {n: v.to(GPU) for n, v in spec.initial_weights(torch.Generator().manual_seed(2)).items()}
    known = {"objective": make_objective(name), "fl_round": 3, "teacher": teacher}
    work = jobs(spec, (128, 64, 1, 0, 33), pool=torch.arange(500, 700), **known)
    for job, one, other in zip(work, sequential.train(work), batched.train(work), strict=True):
        assert one.steps == other.steps
        if one.steps:
            assert moved_apart(job.start, one.weights, other.weights) < tolerance


@pytest.mark.parametrize("model", ["cnn4", "resnet18", "mobilenet"])
def test_inference_is_as_exact_as_pytorchs(model, monkeypatch):
    """Both round to TF32, each in its own places; what is asked is how far that leads from full precision."""
    monkeypatch.setattr("fedactive.engines.kernel_inference.BATCH", 64)  # as in training: nothing to compile
    spec, sequential, batched = engines(model, "tf32")
    weights = jobs(spec, (1,))[0].start
    pixels = sequential.dataset.train_inputs
    rounded = zip(sequential.infer(weights, pixels), batched.infer(weights, pixels), strict=True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    for exact, (plain, kernels) in zip(sequential.infer(weights, pixels), rounded, strict=True):
        assert (kernels - exact).norm() < 2 * (plain - exact).norm() < 0.05 * exact.norm()


def test_an_evaluation_counts_what_inference_says():
    spec, _, engine = engines("cnn4", "bf16")
    weights = jobs(spec, (1,))[0].start
    logits, _ = engine.infer(weights, engine.dataset.test_inputs)
    labels = engine.dataset.test_labels.cpu()
    found, wanted = engine.evaluate(weights), evaluate(logits.cpu(), labels, 10)
    assert (found.tested, found.right, found.predicted) == (wanted.tested, wanted.right, wanted.predicted)
    assert found.loss == pytest.approx(wanted.loss)


class Masked(Classifier):
    """Two layers; buffers of three kinds, which its output depends on."""

    name, summary, paper = "masked", "", ""

    def __init__(self, input_shape, classes):
        super().__init__()
        self.layer = nn.Linear(input_shape[0], 6)
        self.head = nn.Linear(6, classes)
        self.register_buffer("table", torch.linspace(1, 2, 6, dtype=torch.float64))
        self.register_buffer("mask", torch.tensor([True, False, True, True, False, True]))
        self.register_buffer("number", torch.tensor(3, dtype=torch.int16))

    def embed(self, images):
        z = self.layer(images.mean((2, 3))) * self.table.float() + self.number
        return z.where(self.mask, 0.0)


def test_buffers_of_any_kind_are_used_and_kept():
    register(Masked)
    spec, data, recipe = ModelSpec("masked", (3, 32, 32), 10), noise(), Recipe()
    work = jobs(spec, (128, 64, 33))
    wanted = SequentialEngine(spec, data, recipe, GPU).train(work)
    with BatchedEngine(spec, data, recipe, GPU) as engine:
        found = engine.train(work)
    for one, other in zip(wanted, found, strict=True):
        assert furthest(one.weights, other.weights) < 1e-4
        for name in ("table", "mask", "number"):
            assert other.weights[name].dtype == work[0].start[name].dtype
            assert torch.equal(other.weights[name], work[0].start[name])


class Dropping(Masked):
    """Draws random numbers in training, which clients that share steps cannot."""

    name = "dropping"

    def embed(self, images):
        return nn.functional.dropout(super().embed(images), 0.5, self.training)


def test_clients_with_dropout_are_trained_one_after_another_and_draw_from_their_seeds():
    register(Dropping)
    spec, data, recipe = ModelSpec("dropping", (3, 32, 32), 10), noise(), Recipe()
    work = jobs(spec, (128, 64))
    before = torch.cuda.get_rng_state()
    with pytest.warns(UserWarning, match="one after another: model dropping .* draws random numbers"):
        engine = make_engine(spec, data, recipe, "cuda", 0, 2)
    assert isinstance(engine, SequentialEngine)
    forwards, backwards = engine.train(work), engine.train(work[::-1])[::-1]
    for job, a, b in zip(work, forwards, backwards, strict=True):
        assert furthest(a.weights, b.weights) < 1e-6
        assert furthest(a.weights, job.start) > 1e-3
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_the_documents_transformer_agrees_with_the_sequential_engine(tmp_path):
    load_plugin(plugin_from("MODELS.md", tmp_path))
    spec, data, recipe = ModelSpec("vit", (3, 32, 32), 10), noise(), Recipe()
    work = jobs(spec, (64, 33))
    wanted = SequentialEngine(spec, data, recipe, GPU).train(work)
    with make_engine(spec, data, recipe, "cuda", 0, 2) as engine:
        assert isinstance(engine, BatchedEngine)
        for one, other in zip(wanted, engine.train(work), strict=True):
            assert furthest(one.weights, other.weights) < 1e-4


@pytest.mark.parametrize("model", ["cnn4", "resnet18"])
def test_threads_train_side_by_side_with_the_same_result(model):
    spec, data, recipe = ModelSpec(model, (3, 16, 16), 10), noise(16), Recipe(precision="bf16")
    work = jobs(spec, (128, 64, 33))

    def train(_):
        with own_stream(), BatchedEngine(spec, data, recipe, GPU) as engine:
            results = [engine.train(work) for _ in range(5)]
            torch.cuda.current_stream().synchronize()
            return results[-1]

    (alone,) = map(train, [0])
    with ThreadPoolExecutor(3) as pool:
        for together in pool.map(train, range(3)):
            for one, other in zip(alone, together, strict=True):
                assert furthest(one.weights, other.weights) < 3e-2


def test_a_threads_own_stream_is_never_one_that_graphs_are_recorded_on():
    with own_stream():
        mine = torch.cuda.current_stream()
        assert mine not in [torch.cuda.Stream() for _ in range(64)]  # the pool has 32


def test_too_little_memory_means_fewer_clients_at_a_time_and_the_same_result():
    spec, data, recipe = ModelSpec("cnn4", (3, 32, 32), 10), noise(), Recipe(precision="bf16")
    work = jobs(spec, [64] * 100)
    with BatchedEngine(spec, data, recipe, GPU) as engine:
        expected = engine.train(work)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    with BatchedEngine(spec, data, recipe, GPU) as engine:
        filler = torch.empty(free - 900 * 2**20, dtype=torch.uint8, device=GPU)
        with pytest.warns(UserWarning, match="too small for 100 clients at once; going on with"):
            results = engine.train(work)
        del filler
    assert max(furthest(a.weights, b.weights) for a, b in zip(expected, results, strict=True)) < 1e-6


@pytest.mark.parametrize("augment", ["flip", "crop", "flip+crop"])
def test_images_are_varied_as_one_after_another(augment):
    register(Tiny)
    spec, recipe = ModelSpec("tiny", (3, 16, 16), 10), Recipe(augment=augment)
    work = jobs(spec, (64, 128), stop_accuracy=0.5)
    one = SequentialEngine(spec, noise(16), recipe, GPU).train(work)
    together = make_engine(spec, noise(16), recipe, "cuda", 0, 2).train(work)
    assert [a.steps for a in one] == [b.steps for b in together]
    assert all(furthest(a.weights, b.weights) < 1e-3 for a, b in zip(one, together, strict=True))
