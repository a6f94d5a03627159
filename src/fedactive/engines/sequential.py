"""Train one client after another, on any device; linear heads in step, with the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

import torch

from fedactive.engines.engine import Engine
from fedactive.engines.heads import are_heads, train_heads
from fedactive.federated.local_sgd import LocalJob, LocalResult, train


@final
class SequentialEngine(Engine):
    name = "sequential"

    def train(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        # Float sums depend on how threads share the work: one thread per client makes the result the same
        # on every machine and in every engine that trains clients side by side.
        with single_thread():
            if are_heads(self.spec, self.recipe):
                return train_heads(self.dataset.train_inputs, self.recipe, jobs)
            return [
                train(self.model, self.dataset.train_inputs, self.normalise, self.recipe, job) for job in jobs
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
