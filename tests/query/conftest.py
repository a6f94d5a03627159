"""Pools made of chosen model outputs, for strategies to select from."""

from __future__ import annotations

import pytest
import torch

from fedactive.query import Outputs, Pool, batched, batched_kmeans
from fedactive.query.contract import make_pool


def pool_of(
    n: int, classes: int, dimensions: int = 4, labelled: int = 5, seed: int = 0, **chosen: torch.Tensor
) -> Pool:
    """A random pool in which some outputs are chosen: `local_logits=...`, `global_embeddings=...`, ..."""
    pool = make_pool(n, classes, dimensions=dimensions, labelled=labelled, seed=seed)
    original = pool.unlabelled

    def unlabelled(model: str) -> Outputs:
        outputs = original(model)
        return Outputs(
            chosen.get(f"{model}_logits", outputs.logits),
            chosen.get(f"{model}_embeddings", outputs.embeddings),
        )

    pool.unlabelled = unlabelled
    return pool


@pytest.fixture(name="make_pool")
def _make_pool():
    return pool_of


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The kernels for all clients at once, on a CPU too."""
    for module in (batched, batched_kmeans):
        monkeypatch.setattr(module, "one_by_one", lambda tensors: False)
