"""The pooled block against the plain one: same values, same gradients, same running statistics."""

import pytest
import torch

from fedactive.models import pooled_block
from fedactive.models.architectures import cnn4
from fedactive.models.classifier import draw_defaults


def block(channels, seed=0):
    rng = torch.Generator().manual_seed(seed)
    with torch.device("meta"):  # nothing is drawn from PyTorch's own generator
        made = cnn4.Block(channels)
    made.to_empty(device="cpu")
    draw_defaults(made, rng)
    with torch.no_grad():
        for name, value in made.named_parameters():
            if name.startswith("norm"):
                value += 0.5 * torch.rand(value.shape, generator=rng)
    return made


def train(made, x):
    """Output, gradients and statistics of one step towards something."""
    x = x.clone().requires_grad_()
    out = made(x)
    goal = torch.randn(out.shape, generator=torch.Generator().manual_seed(3))
    ((out - goal) ** 2).mean().backward()
    found = {"out": out.detach(), "x": x.grad} | {name: p.grad for name, p in made.named_parameters()}
    return found | {name: value.clone() for name, value in made.named_buffers() if value is not None}


@pytest.mark.parametrize(("images", "channels", "size"), [(7, 3, 8), (5, 64, 7), (1, 1, 9)])
def test_it_is_the_plain_block(monkeypatch, images, channels, size):
    x = torch.randn(images, channels, size, size, generator=torch.Generator().manual_seed(1))
    x[: images // 2, :, :4] = 0.0  # flat areas, where pooling meets equal values
    x = x.contiguous(memory_format=torch.channels_last)
    plain = train(block(channels), x)  # too small for anything else
    monkeypatch.setattr(pooled_block, "VALUES", 3 * 64 * size * size - 1)  # two images at a time
    monkeypatch.setattr(cnn4, "use_pooled_block", lambda x, norm: True)
    pooled = train(block(channels), x)
    assert plain.keys() == pooled.keys()
    for name, value in plain.items():
        if name == "convolution.bias":  # BatchNorm takes it away: rounding here, 0 there
            assert value.abs().max() < 1e-6
            assert not pooled[name].any()
        else:
            assert torch.allclose(value, pooled[name], rtol=1e-3, atol=1e-5), name


def test_it_is_used_for_large_maps_in_training_only_and_not_where_a_scale_is_not_positive():
    made = block(3)
    large = torch.zeros(17, 3, 32, 32)
    assert pooled_block.use_pooled_block(large, made.norm)
    assert not pooled_block.use_pooled_block(large[:16], made.norm)
    with torch.autocast("cpu", torch.bfloat16):
        assert not pooled_block.use_pooled_block(large, made.norm)
    made.eval()
    assert not pooled_block.use_pooled_block(large, made.norm)
    made.train()
    with torch.no_grad():
        made.norm.weight[5] = 0.0
    assert not pooled_block.use_pooled_block(large, made.norm)
