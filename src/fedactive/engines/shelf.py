"""Keep the engine of an experiment for the next one with the same training."""

from __future__ import annotations

from fedactive.data.dataset import Dataset
from fedactive.engines.engine import Engine
from fedactive.engines.make import make_engine
from fedactive.experiment import Experiment
from fedactive.federated.local_sgd import Recipe
from fedactive.models import ModelSpec


class EngineShelf:
    """Keeps the engine of the last run, and replaces it if the next run needs another."""

    def __init__(self) -> None:
        self.key: object = None
        self.engine: Engine | None = None

    def get(self, experiment: Experiment, dataset: Dataset) -> Engine:
        e = experiment
        spec = ModelSpec(e.model, dataset.image_shape, len(dataset.classes), e.model_options)
        flip = e.augment == "flip"
        recipe = Recipe(e.batch_size, e.momentum, e.weight_decay, flip, e.precision)
        key = (e.dataset, e.dataset_sha256, e.data_dir, spec, recipe, e.device, e.workers, e.clients)
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
