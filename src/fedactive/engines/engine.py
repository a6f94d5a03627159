"""An engine trains K clients' models and returns K weights, and it runs models on images.

The sequential engine is the definition; every other engine must agree with it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedactive.data.dataset import Dataset
from fedactive.data.preprocess import Normalise
from fedactive.errors import RunError
from fedactive.evaluation import Evaluation, evaluate
from fedactive.federated.inference import infer, infer_dropping
from fedactive.federated.local_sgd import LocalJob, LocalResult, Recipe
from fedactive.federated.weights import Weights
from fedactive.models import Classifier, ModelSpec
from fedactive.models.contract import draws_in_training, require_sound


class Engine(ABC):
    """Abstract; holds the dataset on the device and one model to run."""

    name: str

    def __init__(self, spec: ModelSpec, dataset: Dataset, recipe: Recipe, device: torch.device) -> None:
        self.spec = spec
        self.recipe = recipe
        self.device = device
        require_room(dataset, device)
        self.dataset = dataset.to(device)
        self.normalise = Normalise(dataset.input_shape, dataset.mean, dataset.std, device)
        self.model = prepare_model(spec, device)
        if device.type == "cuda":
            # Convolutions take most of the time. All other products stay exact, as a query's distances need.
            torch.backends.cudnn.allow_tf32 = recipe.precision != "fp32"
            torch.backends.cuda.matmul.allow_tf32 = False

    @abstractmethod
    def train(self, jobs: Sequence[LocalJob]) -> list[LocalResult]:
        """Run the jobs; return their results in the same order."""

    def infer(self, weights: Weights, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute logits and embeddings of uint8 images under these weights."""
        self.model.load_state_dict(weights)
        return infer(self.model, pixels, self.normalise, self.recipe.precision)

    def infer_dropping(self, weights: Weights, pixels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """Compute what `infer` does, with dropout as in training, drawn by the seed."""
        self.model.load_state_dict(weights)
        return infer_dropping(self.model, pixels, self.normalise, self.recipe.precision, seed)

    def evaluate(self, weights: Weights) -> Evaluation:
        """Evaluate these weights on the dataset's test images."""
        logits, _ = self.infer(weights, self.dataset.test_inputs)
        return evaluate(logits, self.dataset.test_labels, self.spec.classes)

    @contextmanager
    def time_phase(self, phase: str, seconds: dict[str, float]) -> Iterator[None]:
        """Write to seconds[phase] how long the block takes, including its work on the device."""
        begun = time.perf_counter()
        yield
        self.wait()
        seconds[phase] = time.perf_counter() - begun

    def wait(self) -> None:
        """Wait until the device has finished: a GPU still works when its calls have returned."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def close(self) -> None:  # noqa: B027 - most engines have nothing to close
        """Release processes and memory."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_room(dataset: Dataset, device: torch.device) -> None:
    """Refuse a dataset that the GPU's memory cannot hold."""
    if device.type != "cuda":
        return
    needed, (free, _) = (
        dataset.train_inputs.nbytes + dataset.test_inputs.nbytes,
        torch.cuda.mem_get_info(device),
    )
    if needed > free and not dataset.train_inputs.is_cuda:
        room = f"{needed / 1e9:.1f} GB, and the GPU has {free / 1e9:.1f} GB free"
        raise RunError(f"{dataset.name}: its samples take {room}; use a smaller --image-size or a --backbone")


def prepare_model(spec: ModelSpec, device: torch.device) -> Classifier:
    """Build the model for training; UserError if engines cannot train it."""
    model = spec.build()
    require_sound(model, spec)
    model.draws = draws_in_training(model, spec.input_shape)
    model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model
