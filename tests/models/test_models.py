from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fedactive.models import MODELS, ModelSpec

SHAPES = [(3, 32, 32), (1, 28, 28), (3, 28, 28), (1, 8, 8)]


def weights(spec: ModelSpec, seed: int = 0):
    return spec.initial_weights(torch.Generator().manual_seed(seed))


def parameters(spec: ModelSpec) -> int:
    return sum(p.numel() for p in spec.build().parameters())


@pytest.mark.parametrize(
    ("name", "shape", "count", "embedding"),
    [
        ("cnn4", (3, 32, 32), 115_658, 256),
        ("cnn4", (3, 28, 28), 113_738, 64),
        ("cnn4", (1, 28, 28), 112_586, 64),
        ("resnet18", (3, 32, 32), 11_173_962, 512),
        ("mobilenet", (3, 32, 32), 3_217_226, 1024),
    ],
)
def test_parameter_counts_and_embedding_sizes(name, shape, count, embedding):
    spec = ModelSpec(name, shape, 10)
    assert parameters(spec) == count
    assert spec.build().head.in_features == embedding


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_forward_gives_logits_of_the_embedding_and_trains_on_any_batch_size(name, shape):
    spec = ModelSpec(name, shape, 7)
    model = spec.build()
    model.load_state_dict(weights(spec))
    for n in (1, 3):  # a last batch may hold a single sample
        x = torch.rand(n, *shape, generator=torch.Generator().manual_seed(1))
        logits, z = model.train()(x)
        assert logits.shape == (n, 7)
        assert torch.allclose(logits, model.head(z))
        logits.sum().backward()
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())


def test_initial_weights_depend_on_the_generator_alone():
    spec = ModelSpec("cnn4", (3, 32, 32), 10)
    first, again, other = weights(spec, 1), weights(spec, 1), weights(spec, 2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_initial_weights_follow_pytorchs_distributions():
    ours = weights(ModelSpec("cnn4", (3, 32, 32), 10))
    bound = (3 * 9) ** -0.5  # of the first convolution: fan-in 3 channels of 3x3
    for name in ("blocks.0.convolution.weight", "blocks.0.convolution.bias"):
        assert ours[name].abs().max() <= bound
        assert ours[name].abs().max() > 0.8 * bound
    assert torch.equal(ours["blocks.0.norm.weight"], torch.ones(64))


def test_residual_blocks_start_as_the_identity():
    ours = weights(ModelSpec("resnet18", (3, 32, 32), 10))
    assert not ours["blocks.3.norm2.weight"].any()
    assert ours["blocks.3.norm1.weight"].all()


def test_relu_after_pooling_is_the_same_function_as_before_it():
    spec = ModelSpec("cnn4", (3, 32, 32), 10)
    model = spec.build()
    model.load_state_dict(weights(spec))
    model.eval()
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    z = x
    for block in model.blocks:
        z = torch.max_pool2d(torch.relu(block.norm(block.convolution(z))), 2)
    assert torch.equal(model.embed(x), z.flatten(1))


def test_threads_that_build_at_once_leave_the_global_randomness_alone():
    spec = ModelSpec("cnn4", (1, 8, 8), 10)
    before = torch.random.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: spec.build(), range(400)))
    assert torch.equal(before, torch.random.get_rng_state())
