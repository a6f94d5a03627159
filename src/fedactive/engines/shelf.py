"""Make the engine for a device, and keep it for the next experiment with the same training."""

from __future__ import annotations

import importlib.util

import torch

from fedactive.data.dataset import Dataset
from fedactive.engines.batched import BatchedEngine, NotBatchedError
from fedactive.engines.device import choose_device, usable_cores, warn_once
from fedactive.engines.engine import Engine
from fedactive.engines.heads import are_heads
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.experiment import Experiment
from fedactive.federated.augmentation import check_augmentation
from fedactive.federated.local_sgd import Recipe
from fedactive.models import MODELS, ModelSpec
from fedactive.registry import AUGMENTATIONS, split_names


def make_engine(
    spec: ModelSpec, dataset: Dataset, recipe: Recipe, device: str, workers: int, clients: int
) -> Engine:
    """Make the engine: all clients at once on a GPU, side by side on several cores, else one after another.

    `workers` is the number of processes on a CPU; 0 means one per core.
    """
    place = choose_device(device)
    if len(dataset.input_shape) == 3:  # features are not varied
        for name in split_names(recipe.augment):
            if name not in AUGMENTATIONS.ours:  # those the tests check; it takes seconds
                check_augmentation(name, dataset.input_shape)
    if place.type == "cuda":
        if place.index is not None:
            torch.cuda.set_device(place)  # streams and kernels are made on the current one
        # The batched engine needs Triton, which comes with torch for CUDA on Linux, but not everywhere.
        if importlib.util.find_spec("triton"):
            try:
                return BatchedEngine(spec, dataset, recipe, place)
            except NotBatchedError as reason:
                warn_once(f"clients are trained one after another: {reason}")
        return SequentialEngine(spec, dataset, recipe, place)
    count = min(workers or usable_cores(), clients)
    used = [("model", spec.name, MODELS[spec.name])]
    used += [("augmentation", name, AUGMENTATIONS[name]) for name in split_names(recipe.augment)]
    for kind, name, cls in used if count > 1 else ():
        if cls.__module__ == "__main__":
            warn_once(f"clients are trained one after another: workers cannot import {kind} {name}")
            count = 1
    if count > 1 and not are_heads(spec, recipe):  # which in step are faster than in processes
        return ParallelEngine(spec, dataset, recipe, count)
    return SequentialEngine(spec, dataset, recipe, place)


class EngineShelf:
    """Keeps the engine of the last run, and replaces it if the next run needs another."""

    def __init__(self) -> None:
        self.key: object = None
        self.engine: Engine | None = None

    def get(self, experiment: Experiment, dataset: Dataset) -> Engine:
        e = experiment
        spec = ModelSpec(e.model, dataset.input_shape, len(dataset.classes), e.model_options, e.weights)
        recipe = Recipe(e.batch_size, e.momentum, e.weight_decay, e.augment, e.precision)
        key = (e.inputs, spec, recipe, e.device, e.workers, e.clients)
        if self.engine is None or key != self.key:
            self.close()
            self.engine = make_engine(spec, dataset, recipe, e.device, e.workers, e.clients)
            self.key = key
        return self.engine

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        self.engine = None  # frees its data on the device before the next engine's are loaded

    def __enter__(self) -> EngineShelf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
