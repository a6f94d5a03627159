"""How clients are trained. `make_engine` picks the engine for a device."""

from __future__ import annotations

import os

import torch

from fedactive.data.dataset import Dataset
from fedactive.engines.batched import BatchedEngine
from fedactive.engines.engine import Engine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.errors import ConfigurationError
from fedactive.federated.local_sgd import Recipe
from fedactive.models import ModelSpec

__all__ = ["BatchedEngine", "Engine", "ParallelEngine", "SequentialEngine", "choose_device", "make_engine"]


def choose_device(device: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    cuda = torch.cuda.is_available()
    if device == "cuda" and not cuda:
        raise ConfigurationError("device", device, "auto or cpu on this machine: torch sees no CUDA GPU")
    return torch.device("cuda" if cuda and device != "cpu" else "cpu")


def make_engine(
    spec: ModelSpec, dataset: Dataset, recipe: Recipe, device: str, workers: int, clients: int
) -> Engine:
    """All clients at once on a GPU, side by side on several cores, else one after another.

    workers = 0: one per core.
    """
    place = choose_device(device)
    if place.type == "cuda":
        return BatchedEngine(spec, dataset, recipe, place)
    count = min(workers or usable_cores(), clients)
    if count > 1:
        return ParallelEngine(spec, dataset, recipe, count)
    return SequentialEngine(spec, dataset, recipe, place)


def usable_cores() -> int:
    """The cores this process may run on, where the system can tell, else all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
