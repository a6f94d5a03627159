"""Algorithms without steps: clients add up their samples, and from the sums the server solves for the head.

One message per client is all it takes. The order of clients, and who has which sample, make no difference:
the model is the one that all samples together would give.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from fedactive.federated.algorithm import Algorithm, Server, State, Update


class ClosedForm(Algorithm):
    """Abstract: an algorithm that solves for the head of a model whose embedding is not trained."""

    models = ("linear",)
    objectives = ("cross_entropy",)  # the default: there are no steps to train with
    steps = False
    fl_rounds = 1  # a second one would send the same sums

    @abstractmethod
    def add_up(self, embeddings: Tensor, labels: Tensor, classes: int) -> State:
        """Add up one client's labelled samples, perhaps none; sums of clients add up to those of all."""

    def summarise(self, server: Server, embeddings: Tensor, labels: Tensor) -> Update:
        """Return the update of a client with these samples: it has no weights, only sums."""
        return Update(len(labels), {}, self.add_up(embeddings, labels, len(server.weights["head.bias"])))

    def example_update(self, server: Server) -> Update:
        head = server.weights["head.weight"]
        nothing = torch.zeros(0, dtype=torch.long, device=head.device)
        return self.summarise(server, head[:0], nothing)
