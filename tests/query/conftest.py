"""Pools made of chosen model outputs, for strategies to select from."""

from __future__ import annotations

import pytest
import torch

from fedactive.query import Outputs, Pool

MODELS = ("global", "local", "finetuned")


def make_pool(n: int, classes: int, dimensions: int = 4, labelled: int = 5, seed: int = 0, **outputs) -> Pool:
    """A pool of n samples with random outputs for all models; `outputs` replaces logits or embeddings."""
    rng = torch.Generator().manual_seed(seed)

    def draw(count: int) -> dict[str, Outputs]:
        return {
            model: Outputs(
                torch.randn(count, classes, generator=rng) * 2, torch.randn(count, dimensions, generator=rng)
            )
            for model in MODELS
        }

    unlabelled, known = draw(n), draw(labelled)
    for model in unlabelled:
        unlabelled[model] = Outputs(
            outputs.get(f"{model}_logits", unlabelled[model].logits),
            outputs.get(f"{model}_embeddings", unlabelled[model].embeddings),
        )
    labels = torch.randint(classes, (labelled,), generator=rng)
    heads = {
        model: (torch.randn(classes, dimensions, generator=rng), torch.randn(classes, generator=rng))
        for model in MODELS
    }
    return Pool(n, classes, labels, unlabelled.__getitem__, known.__getitem__, heads.__getitem__)


@pytest.fixture(name="make_pool")
def _make_pool():
    return make_pool
