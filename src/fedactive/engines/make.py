"""Choose the engine for a device."""

from __future__ import annotations

import importlib.util

from fedactive.data.dataset import Dataset
from fedactive.engines.batched import BatchedEngine, NotBatchedError
from fedactive.engines.device import choose_device, usable_cores, warn_once
from fedactive.engines.engine import Engine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.federated.local_sgd import Recipe
from fedactive.models import MODELS, ModelSpec


def make_engine(
    spec: ModelSpec, dataset: Dataset, recipe: Recipe, device: str, workers: int, clients: int
) -> Engine:
    """Make the engine: all clients at once on a GPU, side by side on several cores, else one after another.

    `workers` is the number of processes on a CPU; 0 means one per core.
    """
    place = choose_device(device)
    if place.type == "cuda":
        # The batched engine needs Triton, which comes with torch for CUDA on Linux, but not everywhere.
        if importlib.util.find_spec("triton"):
            try:
                return BatchedEngine(spec, dataset, recipe, place)
            except NotBatchedError as reason:
                warn_once(f"clients are trained one after another: {reason}")
        return SequentialEngine(spec, dataset, recipe, place)
    count = min(workers or usable_cores(), clients)
    if count > 1 and MODELS[spec.name].__module__ == "__main__":
        warn_once(f"clients are trained one after another: workers cannot import model {spec.name}")
        count = 1
    if count > 1:
        return ParallelEngine(spec, dataset, recipe, count)
    return SequentialEngine(spec, dataset, recipe, place)
