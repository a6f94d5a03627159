"""The batched engine on a GPU; everything here is skipped where there is none."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fedactive.data.dataset import Dataset
from fedactive.engines import make_engine, own_stream
from fedactive.engines.batched import BatchedEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec
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


@pytest.mark.parametrize(
    ("model", "precision", "tolerance"),
    [("cnn4", "fp32", 1e-4), ("cnn4", "tf32", 1e-2), ("cnn4", "bf16", 3e-2), ("resnet18", "fp32", 1e-4)],
)
@pytest.mark.parametrize("changes", [{}, {"proximal": 0.1}, {"stop_accuracy": 0.11}], ids=str)
def test_it_agrees_with_the_sequential_engine(model, precision, tolerance, changes):
    spec, data, recipe = ModelSpec(model, (3, 32, 32), 10), noise(), Recipe(precision=precision)
    work = jobs(spec, (128, 64, 1, 0, 33), **changes)
    a = SequentialEngine(spec, data, recipe, GPU).train(work)
    with make_engine(spec, data, recipe, "cuda", 0, 5) as engine:
        assert isinstance(engine, BatchedEngine)
        for one, other in zip(a, engine.train(work), strict=True):
            assert one.steps == other.steps
            assert furthest(one.weights, other.weights) < tolerance


def test_inference_agrees_with_the_sequential_engine():
    spec, data, recipe = ModelSpec("cnn4", (3, 32, 32), 10), noise(), Recipe(precision="tf32")
    weights = jobs(spec, (1,))[0].start
    pixels = data.train_images.to(GPU)
    expected = SequentialEngine(spec, data, recipe, GPU).infer(weights, pixels)
    with BatchedEngine(spec, data, recipe, GPU) as engine:
        for one, other in zip(expected, engine.infer(weights, pixels), strict=True):
            assert (one - other).norm() < 5e-3 * one.norm()


@pytest.mark.parametrize(("model", "precision"), [("cnn4", "bf16"), ("resnet18", "bf16")])
def test_threads_train_side_by_side_with_the_same_result(model, precision):
    spec, data, recipe = ModelSpec(model, (3, 32, 32), 10), noise(), Recipe(precision=precision)
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
