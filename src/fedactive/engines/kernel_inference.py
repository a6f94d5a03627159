"""Compute logits and embeddings of many images under one set of weights, with the kernels of training.

In a batch in which no row is present, BatchNorm uses its running statistics and does not change them, which
is what evaluation needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.data.preprocess import Normalise
from fedactive.engines.kernel_stack import KernelStack
from fedactive.engines.stack import record
from fedactive.federated.local_sgd import Recipe
from fedactive.federated.weights import Weights
from fedactive.models import Classifier

BATCH = 1024  # larger batches are no faster


@final
class Inference:
    """Runs a model on batches of one size, for one set of weights at a time."""

    z: Tensor

    def __init__(
        self, kind: type[KernelStack], model: Classifier, images: Tensor, normalise: Normalise, recipe: Recipe
    ) -> None:
        self.batch = choose_batch_size(kind, model, images, recipe)
        recipe = replace(recipe, batch_size=self.batch)
        self.stack = kind(model, images, normalise, recipe, 1, (False, False))
        self.run = record(self.embed, images.device)

    def embed(self) -> None:
        self.z = self.stack.embed()

    def __call__(self, weights: Weights, pixels: Tensor) -> tuple[Tensor, Tensor]:
        stack = self.stack
        stack.layout.pack(weights, stack.parameters[0])
        stack.buffer_layout.pack(weights, stack.statistics[0])
        stack.round()
        embeddings = []
        for part in pixels.split(self.batch):
            stack.batch[0, : len(part)] = stack.normalise(part).permute(0, 2, 3, 1)
            self.run()
            embeddings.append(self.z[0, : len(part)].clone())
        z = torch.cat(embeddings)
        return F.linear(z, weights["head.weight"], weights["head.bias"]), z


def choose_batch_size(kind: type[KernelStack], model: Classifier, images: Tensor, recipe: Recipe) -> int:
    """Choose how many images to take at a time: fewer if memory or the 32-bit count of values limits them."""
    shape = images.shape[1:]
    most = kind.most_images(model, shape)
    if images.is_cuda:
        free, _ = torch.cuda.mem_get_info(images.device)
        free += torch.cuda.memory_reserved(images.device) - torch.cuda.memory_allocated(images.device)
        most = min(most, free // 2 // kind.bytes_per_image(model, shape, recipe))
    return max(1, min(BATCH, most))
