"""What a strategy sees of one client: its labels, and model outputs on unlabelled and labelled samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import torch
from torch import Tensor


@dataclass(frozen=True)
class Outputs:
    """One model's outputs on n samples."""

    logits: Tensor  # (n, C)
    embeddings: Tensor  # z, (n, d)

    @cached_property
    def probabilities(self) -> Tensor:
        """p(y | x) = softmax of the logits."""
        return self.logits.softmax(1)

    @cached_property
    def entropy(self) -> Tensor:
        """H(p) = -Σ_c p_c ln p_c."""
        entropy: Tensor = torch.special.entr(self.probabilities).sum(1)  # entr(0) is 0
        return entropy

    @cached_property
    def residual(self) -> Tensor:
        """q_c = 1[ŷ = c] - p_c; the whole gradient of the last layer is z ⊗ q."""
        predicted = torch.nn.functional.one_hot(self.probabilities.argmax(1), self.probabilities.shape[1])
        return predicted - self.probabilities

    @cached_property
    def hallucinated_gradient(self) -> Tensor:
        """g = z·(1 - p_ŷ): the gradient of the last layer's row for the predicted class (Eq. 7 of LoGo)."""
        return self.embeddings * (1 - self.probabilities.amax(1, keepdim=True))


def _no_inputs(*_: object) -> NoReturn:
    raise LookupError("this pool was made without inputs")


class Pool:
    """A client's samples at query time. Outputs are computed when first asked for, and only once."""

    def __init__(
        self,
        size: int,
        classes: int,
        labels: Tensor,
        unlabelled: Callable[[str], Outputs],
        labelled: Callable[[str], Outputs],
        head: Callable[[str], tuple[Tensor, Tensor]],
        each: Callable[[str], Iterator[Outputs]] | None = None,
        agreed: Tensor | None = None,
        inputs: Callable[[Tensor], Tensor] | None = None,
        infer: Callable[[str, Tensor], Outputs] | None = None,
        client: int = 0,
        clients: int = 1,
    ) -> None:
        self.size = size  # unlabelled samples
        self.classes = classes
        self.labels = labels  # of the labelled samples, in the order of `labelled`
        self.unlabelled = unlabelled  # outputs of the model of that name on the unlabelled samples
        self.labelled = labelled  # the same on the labelled samples
        self.head = head  # the last layer of the model of that name: W (C, d) and b (C,)
        # Outputs of several models on the unlabelled samples, one model at a time: of many models all outputs
        # together may not fit into memory. They are computed anew each time.
        self.each: Callable[[str], Iterator[Outputs]] = each or (lambda role: iter(()))
        self.agreed = agreed  # the mean of what clients said (`Strategy.summarise`); None if nobody did
        # The unlabelled samples at these positions: images (n, channels, height, width) from 0 to 255, or
        # features (n, d). A copy: of a large pool a part at a time.
        self.inputs: Callable[[Tensor], Tensor] = inputs or _no_inputs
        # Outputs of the model of that name on inputs that the strategy has changed, such as mirrored images.
        self.infer: Callable[[str, Tensor], Outputs] = infer or _no_inputs
        self.client = client  # its number, from 0
        self.clients = clients  # how many take part

    def __len__(self) -> int:
        return self.size
