"""How this machine rounds. Sums of floats depend on the instructions and libraries that compute them."""

from __future__ import annotations

import hashlib
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

STEPS = 6


@cache
def fingerprint(precision: str) -> str:
    """A hash of the exact weights after a fixed small training in plain torch, in float32 or with bf16."""
    rng = torch.Generator().manual_seed(1)
    images = torch.randn(48, 1, 8, 8, generator=rng)
    labels = torch.randint(10, (48,), generator=rng)
    shapes = [(32, 1, 3, 3), (64, 32, 3, 3), (10, 256)]
    weights = [(torch.randn(*shape, generator=rng) / 10).requires_grad_() for shape in shapes]
    velocity = [torch.zeros_like(weight) for weight in weights]
    for step in range(STEPS):
        part = slice(16 * (step % 3), 16 * (step % 3) + 11 + step)  # of different sizes: odd ends round, too
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = forward(images[part], weights)
        loss = F.cross_entropy(logits.float(), labels[part])
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, v, g in zip(weights, velocity, gradients, strict=True):
                v.mul_(0.9).add_(g + 1e-5 * weight)
                weight.sub_(0.05 * v)
    with torch.no_grad():
        scores = forward(images, weights).softmax(1)
        distances = torch.cdist(scores, scores) + scores @ scores.T
    numbers = [*weights, scores.log(), distances, distances.double().sum(1)]
    return hashlib.sha256(b"".join(x.detach().numpy().tobytes() for x in numbers)).hexdigest()[:16]


def forward(images: Tensor, weights: list[Tensor]) -> Tensor:
    first, second, head = weights
    x = F.max_pool2d(F.batch_norm(F.conv2d(images, first, padding=1), None, None, training=True).relu(), 2)
    x = F.max_pool2d(F.batch_norm(F.conv2d(x, second, padding=1), None, None, training=True).relu(), 2)
    return F.linear(x.flatten(1), head)
