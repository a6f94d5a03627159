"""GCNAL, its CoreGCN variant (Caramalau, Bhattarai & Kim, CVPR 2021): far from the labelled on a graph.

All samples, unlabelled and labelled, are nodes of a graph; the edges are the similarity of their embeddings.
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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from fedactive.query.batched import in_groups, k_centre_of_all, padded
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, OneModelStrategy, Selection, register

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
class GCNAL(BatchedStrategy, OneModelStrategy):
    name = "gcnal"
    summary = "a graph network learns what looks labelled; k-centre in its space (CoreGCN)"
    paper = "Caramalau et al., CVPR 2021"

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        unlabelled = [pool.unlabelled(self.selector).embeddings for pool in pools]
        labelled = [pool.labelled(self.selector).embeddings for pool in pools]
        seen = [sample(x, count, rng) for x, count, rng in zip(unlabelled, counts, rngs, strict=True)]
        sizes = [len(positions) for positions in seen]
        samples = [torch.cat([x[s], y]).detach() for x, s, y in zip(unlabelled, seen, labelled, strict=True)]
        costs = [10 * len(x) * (x.shape[1] + HIDDEN) for x in samples]
        nodes = in_groups(train, costs, samples, sizes, rngs)
        centres = k_centre_of_all(
            [x[:n] for x, n in zip(nodes, sizes, strict=True)],
            [x[n:] for x, n in zip(nodes, sizes, strict=True)],
            counts,
            rngs,
        )
        return [Selection(s[chosen], score) for s, (chosen, score) in zip(seen, centres, strict=True)]


def sample(pool: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Choose the positions that make up the graph: all, or a sample of a large pool, but at least `count`."""
    seen = torch.arange(len(pool))
    if len(pool) > POOL_LIMIT:
        seen = torch.randperm(len(pool), generator=rng)[: max(POOL_LIMIT, count)]
    return seen.to(pool.device)


class Graph:
    """The similarity graphs of clients' samples, (..., n, d): unit features X, and A as a function.

    Padding is 0 and so has no neighbours.
    """

    def __init__(self, embeddings: Tensor) -> None:
        self.features = F.normalize(embeddings, dim=-1)
        degree = self.features @ self.features.sum(-2, keepdim=True).mT - 1
        # A column with a sum of almost 0 (a lone sample; similarities that cancel out) would only amplify
        # rounding errors: its D⁻¹ is taken as 0, so that the sample is its own only neighbour.
        lone = degree.abs() < SMALLEST_DEGREE
        self.inverse_degree = torch.where(lone, 0.0, 1 / degree)

    def smooth(self, values: Tensor) -> Tensor:
        """Compute A v, for v of one row per sample."""
        scaled = self.inverse_degree * values
        return self.features @ (self.features.mT @ scaled) - scaled + values


def train(
    samples: Sequence[Tensor], unlabelled: Sequence[int], rngs: Sequence[torch.Generator]
) -> list[Tensor]:
    """Train each client's network; return [h, s] of its samples, which begin with the `unlabelled` ones.

    The networks are independent of each other; they only take their steps together.
    """
    # Training needs autograd, whatever mode the caller is in.
    with torch.inference_mode(False), torch.enable_grad():
        together, _ = padded(samples)
        graph = Graph(together)
        features = graph.smooth(graph.features)
        drawn = [(glorot(features.shape[2], HIDDEN, rng), glorot(HIDDEN, 1, rng)) for rng in rngs]
        first, second = (torch.stack(w).to(features).requires_grad_() for w in zip(*drawn, strict=True))
        first_bias = features.new_zeros(len(samples), 1, HIDDEN, requires_grad=True)
        second_bias = features.new_zeros(len(samples), 1, 1, requires_grad=True)
        # Masks are drawn on the device that uses them: 200 of 128 columns are a lot to send to a GPU.
        masks = [
            torch.Generator(features.device).manual_seed(int(torch.randint(2**62, (1,), generator=rng)))
            for rng in rngs
        ]

        sign = features.new_ones(features.shape[:2])
        weight = features.new_zeros(features.shape[:2])  # it stays 0 for padding
        for k, n in enumerate(unlabelled):
            sign[k, :n] = -1  # log(1 - σ(x)) = log σ(-x)
            weight[k, :n] = UNLABELLED_WEIGHT / n
            weight[k, n : len(samples[k])] = 1 / max(len(samples[k]) - n, 1)

        optimiser = torch.optim.Adam(
            [first, first_bias, second, second_bias], lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
        )
        kept = torch.zeros(*features.shape[:2], HIDDEN, device=features.device)
        for _ in range(STEPS):
            for k, own in enumerate(masks):
                kept[k, : len(samples[k])].uniform_(generator=own)
            kept.ge_(DROPOUT)  # 0 and 1
            hidden = torch.baddbmm(first_bias, features, first).relu_() * kept
            # W₂ before A, so that one column is smoothed, not 128. Dropout's scale is applied to W₂.
            logit = graph.smooth(hidden @ (second / (1 - DROPOUT))) + second_bias
            loss = -(weight * F.logsigmoid(sign * logit[:, :, 0])).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    with torch.no_grad():
        hidden = torch.baddbmm(first_bias, features, first).relu()
        score = (graph.smooth(hidden @ second) + second_bias).sigmoid()
        nodes = torch.cat([hidden, score], 2)
    return [nodes[k, : len(own)] for k, own in enumerate(samples)]


def glorot(inputs: int, outputs: int, rng: torch.Generator) -> Tensor:
    """Draw uniform initial weights as in Kipf & Welling (ICLR 2017): ±√(6 / (inputs + outputs))."""
    bound = math.sqrt(6 / (inputs + outputs))
    return torch.empty(inputs, outputs).uniform_(-bound, bound, generator=rng)
