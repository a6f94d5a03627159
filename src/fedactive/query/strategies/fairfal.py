"""FairFAL (CVPR 2026): the fitting model by how unbalanced the federation is, every class its share, diverse.

g is the global model and l the client's own, trained on its labels alone. ḡ and l̄ are their mean softmax over
the client's labelled samples, with all classes weighed alike.

    d_k = mean_c |ḡ_c - l̄_c| / (ḡ_c + l̄_c)                  how far the client is from the others
    γ_k = min_c ḡ_c / max_c ḡ_c over its classes             how balanced the global model is here
    γ   = mean of γ_k over the clients, at the first query   the one number that a client tells

1. Entropy is g's if 1 - ½(d_k + γ) > 0.75, else l's.
2. A sample's pseudo-class is that of the nearest prototype by cosine: the mean of normalised h_g of each
   labelled class; without labels it is the class that g predicts.
3. Each pseudo-class gets ⌊B/C⌋ samples, and what remains of B goes, one each, to the largest. What a class is
   too small for goes in turn to the others, from the largest.
4. In each pseudo-class: the 4·quota samples of highest entropy, of these by greedy k-centre on the gradients
   h_g ⊗ (1[c = y] - p_c), with the pseudo-class as y. Centres to begin with are the class's labelled samples;
   without any it is the most uncertain one. p is g's if γ < 0.5, else l's.

Gradients are never built: <h ⊗ q, h' ⊗ q'> = <h, h'>·<q, q'>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.batched import in_groups, mask
from fedactive.query.kernels import top
from fedactive.query.pool import Pool
from fedactive.query.strategy import BatchedStrategy, Selection, register

CERTAIN = 0.75  # of 1 - ½(d + γ), from where on the global model's entropy counts
BALANCED = 0.5  # of γ, from where on gradients are the local model's
CANDIDATES = 4  # of each that is chosen


@final
@register
@dataclass(frozen=True)
class FairFAL(BatchedStrategy):
    name = "fairfal"
    summary = "every pseudo-class its share; uncertain and diverse by the global or the local model"
    paper = "FairFAL, CVPR 2026"
    selectors = ("both",)
    numbers = 1  # γ_k

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local"})

    def summarise(self, pool: Pool) -> Tensor | None:
        if not len(pool.labels):
            return None
        mean = balanced_mean(pool.labelled("global").probabilities, pool.labels)
        present = mean[torch.bincount(pool.labels, minlength=pool.classes) > 0]
        return (present.min() / present.max())[None]

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        groups = [group for args in zip(pools, counts, rngs, strict=True) for group in self.groups(*args)]
        between, nearest, quotas = (
            [getattr(group, name) for group in groups] for name in ("between", "nearest", "quota")
        )
        centres = in_groups(farthest_first, [len(d) ** 2 for d in between], between, nearest, quotas)
        chosen: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for group, picked in zip(groups, centres, strict=True):
            chosen.setdefault(id(group.pool), []).append((group.candidates[picked], group.entropy[picked]))
        selections = []
        for pool in pools:
            indices, entropy = map(torch.cat, zip(*chosen[id(pool)], strict=True))
            order = entropy.argsort(descending=True, stable=True)
            selections.append(Selection(indices[order], entropy[order]))
        return selections

    def groups(self, pool: Pool, count: int, rng: torch.Generator) -> list[Group]:
        """Return the client's pseudo-classes of which something is to be chosen."""
        gamma = 1.0 if pool.agreed is None else float(pool.agreed)
        unsure = "global" if 1 - (apartness(pool) + gamma) / 2 > CERTAIN else "local"
        shown = "global" if gamma < BALANCED else "local"
        entropy, h = pool.unlabelled(unsure).entropy, pool.unlabelled("global").embeddings
        cluster = pseudo_classes(pool)
        sizes = torch.bincount(cluster, minlength=pool.classes).tolist()
        by = top(entropy, len(pool), rng)
        by = by[cluster[by].argsort(stable=True)]
        p, known = pool.unlabelled(shown).probabilities, pool.labelled(shown).probabilities
        groups = []
        for c, (own, quota) in enumerate(zip(by.split(sizes), quotas_of(sizes, count), strict=True)):
            if quota:
                some, anchors = own[: CANDIDATES * quota], (pool.labels == c).nonzero().squeeze(1)
                here = h[some], residual(p[some], c)
                spread = distances(here, here)
                nearest = torch.full_like(spread[0], torch.inf)  # of equal ones the first is chosen
                if len(anchors):
                    there = pool.labelled("global").embeddings[anchors], residual(known[anchors], c)
                    nearest = distances(here, there).amin(1)
                groups.append(Group(pool, some, entropy[some], spread, nearest, quota))
        return groups


@dataclass(frozen=True)
class Group:
    """The candidates of one pseudo-class of one client, the most uncertain first."""

    pool: Pool
    candidates: Tensor  # (m,) positions in the pool
    entropy: Tensor  # (m,)
    between: Tensor  # (m, m) squared distances
    nearest: Tensor  # (m,) to the centres that are there already
    quota: int


def balanced_mean(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return the mean (C,) over labelled samples, as if each class had as many of them."""
    own = F.one_hot(labels, probabilities.shape[1]).to(probabilities)
    own = own[:, own.any(0)]
    return (own / own.sum(0)).T.matmul(probabilities).mean(0)


def apartness(pool: Pool) -> float:
    """Compute d_k; 0 for a client without labels."""
    if not len(pool.labels):
        return 0.0
    g, own = (balanced_mean(pool.labelled(m).probabilities, pool.labels) for m in ("global", "local"))
    return float(((g - own).abs() / (g + own)).nan_to_num().mean())


def pseudo_classes(pool: Pool) -> Tensor:
    if not len(pool.labels):
        return pool.unlabelled("global").logits.argmax(1)
    own = F.one_hot(pool.labels, pool.classes).to(pool.unlabelled("global").embeddings)
    prototypes = own.T @ F.normalize(pool.labelled("global").embeddings)  # a cosine needs no mean
    cosine = F.normalize(pool.unlabelled("global").embeddings) @ F.normalize(prototypes).T
    return cosine.masked_fill(~own.any(0), -torch.inf).argmax(1)


def quotas_of(sizes: Sequence[int], count: int) -> list[int]:
    """Share `count` out among classes of these sizes."""
    largest = sorted(range(len(sizes)), key=lambda c: -sizes[c])
    quotas = [count // len(sizes)] * len(sizes)
    for c in largest[: count % len(sizes)]:
        quotas[c] += 1
    quotas = [min(quota, size) for quota, size in zip(quotas, sizes, strict=True)]
    while (missing := count - sum(quotas)) > 0:
        for c in [c for c in largest if quotas[c] < sizes[c]][:missing]:
            quotas[c] += 1
    return quotas


def residual(probabilities: Tensor, label: int) -> Tensor:
    """Return 1[c = y] - p_c of samples that all have this label."""
    q = -probabilities
    q[:, label] += 1
    return q


def distances(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """Compute ‖h ⊗ q - h' ⊗ q'‖² for all pairs of (h, q) and (h', q')."""
    (h, q), (h_other, q_other) = one, other
    squares, theirs = ((x * x).sum(1) * (y * y).sum(1) for x, y in (one, other))
    products = (h @ h_other.T) * (q @ q_other.T)
    return (squares[:, None] + theirs - 2 * products).clamp_min_(0)


def farthest_first(
    between: Sequence[Tensor], nearest: Sequence[Tensor], counts: Sequence[int]
) -> list[Tensor]:
    """Run greedy k-centre in each group by its distances: `counts[g]` positions."""
    sizes, most = [len(own) for own in nearest], max(map(len, nearest))
    every = between[0].new_zeros(len(between), most, most)
    left = torch.full((len(between), most), -torch.inf, device=every.device)
    for g, (own, far) in enumerate(zip(between, nearest, strict=True)):
        every[g, : sizes[g], : sizes[g]] = own
        left[g, : sizes[g]] = far
    free = mask(sizes, most, every.device)
    chosen = torch.empty(len(between), max(counts), dtype=torch.long, device=every.device)
    for step in range(max(counts)):
        centre = left.masked_fill(~free, -torch.inf).argmax(1, keepdim=True)
        chosen[:, step : step + 1] = centre
        free.scatter_(1, centre, False)
        left = torch.minimum(left, every.take_along_dim(centre[:, :, None], 1)[:, 0])
    return [chosen[g, :count] for g, count in enumerate(counts)]
