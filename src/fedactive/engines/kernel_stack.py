"""A stack whose passes are kernels for all clients at once. It also runs models without training them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from torch import Tensor

from fedactive.engines.own_accuracy import OwnAccuracy
from fedactive.engines.stack import Stack
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import Classifier


class KernelStack(Stack):
    """Abstract; if no row of `present` is set, BatchNorm uses its running statistics and keeps them."""

    check: OwnAccuracy | None = None

    @classmethod
    @abstractmethod
    def supports(cls, model: Classifier, images: Tensor, recipe: Recipe) -> bool:
        """Return whether the kernels can train this model."""

    @classmethod
    @abstractmethod
    def most_images(cls, model: Classifier, shape: Sequence[int]) -> int:
        """Return how many images a step may have in all: kernels count the values of a map in 32 bits."""

    @classmethod
    @abstractmethod
    def bytes_per_image(cls, model: Classifier, shape: Sequence[int], recipe: Recipe) -> int:
        """Count what a stack keeps of an image: maps and their gradients."""

    @abstractmethod
    def embed(self) -> Tensor:
        """Run the models on `batch`; return the embeddings (clients, batch, features) in float32."""

    def load(self, jobs: Sequence[LocalJob]) -> None:
        super().load(jobs)
        if self.stoppable:
            self.check = self.check or OwnAccuracy(self)
            self.check.begin(jobs)

    def own_accuracy(self) -> Tensor:
        assert self.check is not None
        return self.check()
