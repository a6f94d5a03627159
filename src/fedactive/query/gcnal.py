"""GCNAL, its CoreGCN variant (Caramalau, Bhattarai & Kim, CVPR 2021): far from what is labelled, on a graph.

All samples, unlabelled and labelled, are the nodes of a graph, tied by the similarity of their embeddings.
With X their unit embeddings, (n + L, d),

    A = (X Xᵀ - I) D⁻¹ + I          D: the column sums of X Xᵀ - I
    h = relu(A X W₁ + b₁)           128 units, dropout 0.3 in training
    s = σ(A h W₂ + b₂)              how much a node looks labelled

is trained to tell the two kinds apart, by -mean log s_labelled - 1.2·mean log(1 - s_unlabelled). Greedy
k-centre on [h, s] then takes the nodes farthest from the labelled ones and from each other.

A is never built: A v = X (Xᵀ D⁻¹ v) - D⁻¹ v + v costs n·d, and A X does not change during training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from fedactive.query.kernels import k_centre
from fedactive.query.pool import Pool
from fedactive.query.strategy import OneModelStrategy, Selection, register

HIDDEN = 128
DROPOUT = 0.3
STEPS = 200
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 5e-4
UNLABELLED_WEIGHT = 1.2
POOL_LIMIT = 10_000  # a larger pool is sampled
SMALLEST_DEGREE = 1e-3


@final
@register
@dataclass(frozen=True)
class GCNAL(OneModelStrategy):
    name = "gcnal"
    summary = "a graph network learns what looks labelled; k-centre in its space (CoreGCN)"
    paper = "Caramalau et al., CVPR 2021"

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        budget = min(budget, len(pool))
        if budget == 0:
            return Selection(torch.zeros(0, dtype=torch.long), torch.zeros(0))
        unlabelled = pool.unlabelled(self.selector).embeddings
        labelled = pool.labelled(self.selector).embeddings
        seen = torch.arange(len(pool))
        if len(pool) > POOL_LIMIT:  # never fewer than are to be chosen
            seen = torch.randperm(len(pool), generator=rng)[: max(POOL_LIMIT, budget)]
        seen = seen.to(unlabelled.device)
        # Training needs autograd, whatever mode the caller is in.
        with torch.inference_mode(False), torch.enable_grad():
            graph = Graph(torch.cat([unlabelled[seen], labelled]).detach())
            hidden, score = train(graph, len(seen), rng)
        nodes = torch.cat([hidden, score[:, None]], 1)
        chosen, distance = k_centre(nodes[: len(seen)], nodes[len(seen) :], budget, rng)
        return Selection(seen[chosen], distance)


class Graph:
    """The similarity graph of samples: unit features X, and A as a function."""

    def __init__(self, embeddings: Tensor) -> None:
        self.features = F.normalize(embeddings)
        degree = self.features @ self.features.sum(0) - 1
        # A column with a sum of almost 0 (a lone sample; similarities that cancel out) would only blow up
        # rounding errors: its D⁻¹ is taken as 0, so that the sample is a neighbour of nobody but itself.
        lone = degree.abs() < SMALLEST_DEGREE
        self.inverse_degree = torch.where(lone, 0.0, 1 / degree)[:, None]

    def smooth(self, values: Tensor) -> Tensor:
        """A v, for v of one row per sample."""
        scaled = self.inverse_degree * values
        return self.features @ (self.features.T @ scaled) - scaled + values


def train(graph: Graph, unlabelled: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """h and s of all nodes after training; the first `unlabelled` nodes are the pool, the others labelled."""
    features = graph.smooth(graph.features)
    count, device = len(features), features.device
    first = glorot(features.shape[1], HIDDEN, rng).to(features).requires_grad_()
    first_bias = features.new_zeros(HIDDEN, requires_grad=True)
    second = glorot(HIDDEN, 1, rng).to(features).requires_grad_()
    second_bias = features.new_zeros(1, requires_grad=True)
    # Drawn on the device that uses them: 200 masks of 128 columns are a lot to send to a GPU.
    masks = torch.Generator(device).manual_seed(int(torch.randint(2**62, (1,), generator=rng)))

    sign = features.new_ones(count)
    sign[:unlabelled] = -1  # log(1 - σ(x)) = log σ(-x)
    weight = features.new_full((count,), 1 / max(count - unlabelled, 1))
    weight[:unlabelled] = UNLABELLED_WEIGHT / unlabelled

    optimiser = torch.optim.Adam(
        [first, first_bias, second, second_bias], lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    for _ in range(STEPS):
        kept = torch.rand(count, HIDDEN, generator=masks, device=device).ge_(DROPOUT)  # 0 and 1
        hidden = torch.addmm(first_bias, features, first).relu_() * kept
        # W₂ before A, so that one column is smoothed, not 128; the scale of dropout goes with it.
        logit = graph.smooth(hidden @ (second / (1 - DROPOUT))) + second_bias
        loss = -(weight * F.logsigmoid(sign * logit[:, 0])).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    with torch.no_grad():
        hidden = torch.addmm(first_bias, features, first).relu()
        score = (graph.smooth(hidden @ second) + second_bias)[:, 0].sigmoid()
    return hidden, score


def glorot(inputs: int, outputs: int, rng: torch.Generator) -> Tensor:
    """Uniform initial weights as in Kipf & Welling (ICLR 2017): ±√(6 / (inputs + outputs))."""
    bound = math.sqrt(6 / (inputs + outputs))
    return torch.empty(inputs, outputs).uniform_(-bound, bound, generator=rng)
