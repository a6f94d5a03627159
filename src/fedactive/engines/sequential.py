"""Train one client after another, on any device; linear heads in step, with the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

import torch

from fedactive.engines.engine import Engine
from fedactive.engines.heads import are_heads, is_plain, train_heads
from fedactive.federated.local_sgd import LocalJob, LocalResult, train


@final
class SequentialEngine(Engine):
    name = "sequential"

    def train(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        # Float sums depend on how threads share the work: one thread per client makes the result the same
        # on every machine and in every engine that trains clients side by side.
        return train_in_turn(self, jobs)


def train_in_turn(engine: Engine, jobs: Sequence[LocalJob]) -> list[LocalResult]:
    """Train with the engine's own model, in this process."""
    with single_thread():
        if are_heads(engine.spec, engine.recipe) and all(map(is_plain, jobs)):
            return train_heads(engine.dataset.train_inputs, engine.recipe, jobs)
        return [
            train(engine.model, engine.dataset.train_inputs, engine.normalise, engine.recipe, job)
            for job in jobs
        ]


@contextmanager
def single_thread() -> Iterator[None]:
    """Let torch use one CPU thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
