"""Compute logits and embeddings of many images under one set of weights, with the kernels of training.

In a batch in which no row is present, BatchNorm uses its running statistics and does not change them, which
is what evaluation needs. The first map is never stored here either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.data.preprocess import Normalise
from fedactive.engines.cnn4.stack import CNN4Stack
from fedactive.engines.stack import record
from fedactive.federated.local_sgd import Recipe
from fedactive.federated.weights import Weights
from fedactive.models import Classifier

BATCH = 1024  # larger batches are no faster


@final
class Inference:
    """Runs cnn4 on batches of one size, for one set of weights at a time."""

    def __init__(self, model: Classifier, images: Tensor, normalise: Normalise, recipe: Recipe) -> None:
        self.batch = choose_batch_size(images, recipe)
        recipe = replace(recipe, batch_size=self.batch)
        self.stack = CNN4Stack(model, images, normalise, recipe, 1, (False, False))
        self.embed = record(self.stack.embed, images.device)

    def __call__(self, weights: Weights, pixels: Tensor) -> tuple[Tensor, Tensor]:
        stack = self.stack
        stack.layout.pack(weights, stack.parameters[0])
        stack.buffer_layout.pack(weights, stack.statistics[0])
        embeddings = []
        for part in pixels.split(self.batch):
            stack.batch[0, : len(part)] = stack.normalise(part).permute(0, 2, 3, 1)
            self.embed()
            z = stack.x[4][0, : len(part)]  # places before channels; the model has channels first
            embeddings.append(z.movedim(-1, 1).flatten(1).to(torch.float32, copy=True))
        z = torch.cat(embeddings)
        return F.linear(z, weights["head.weight"], weights["head.bias"]), z


def choose_batch_size(images: Tensor, recipe: Recipe) -> int:
    """Choose how many images to take at a time: fewer if memory or the 32-bit count of values limits them."""
    shape = images.shape[1:]
    most = CNN4Stack.most_images(shape)
    if images.is_cuda:
        free, _ = torch.cuda.mem_get_info(images.device)
        free += torch.cuda.memory_reserved(images.device) - torch.cuda.memory_allocated(images.device)
        most = min(most, free // 2 // CNN4Stack.bytes_per_image(shape, recipe))
    return max(1, min(BATCH, most))
