"""IFAL (IJCAI 2025): samples whose neighbourhoods tell different stories in three models' spaces.

The models are g (global), l (the client's own after its last update) and d (distilled afresh from g, see
`distilled_job` in `client.py`). In each model's space, by cosine, every labelled and every pool sample votes
for its 250 most similar pool samples, itself excluded. A sample u has

    r_c(u) = (1 + votes_c) / Σ_c (1 + votes_c)

where voters have their true label, or the class that g predicts: r_g, r_l, r_d; or that l predicts, in l's
space: r'_l. The distance W(p, q) = mean |sort(p) - sort(q)| does not mind the order of classes. With ε = 1e-5

    D1 = W(r_l, r_d)    D2 = W(r_g, r_d)    U1 = max(D1/(D2 + ε), D2/(D1 + ε))·(D1 + D2)    U2 = W(r'_l, p_l)

Candidates are what lies above Otsu's threshold on U1·U2; if they are fewer than B, above that on U1. k-means
makes B clusters of their normalised embeddings by l, and the sample nearest to each centre is chosen. If they
are still too few, it is the top B by U1·U2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from fedactive.query.batched_kmeans import kmeans_of_all
from fedactive.query.kernels import best_of_each, top
from fedactive.query.pool import Pool
from fedactive.query.strategies.alfamix import squared_distance_to_mean
from fedactive.query.strategy import BatchedStrategy, Selection, register

NEIGHBOURS = 250
EPSILON = 1e-5
BLOCK = 2**26  # similarities at a time


@final
@register
@dataclass(frozen=True)
class IFAL(BatchedStrategy):
    name = "ifal"
    summary = (
        "samples whose neighbours differ between the global, the client's and a distilled model, clustered"
    )
    paper = "IFAL, IJCAI 2025"
    selectors = ("both",)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"global", "local_last", "distilled"})

    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        scores, candidates = [], []
        for pool, count in zip(pools, counts, strict=True):
            first, second = uncertainties(pool)
            scores.append(first * second)
            above = above_otsu(scores[-1])
            candidates.append(above if len(above) >= count else above_otsu(first))
        chosen: dict[int, Tensor] = {}
        for k, (score, count, rng) in enumerate(zip(scores, counts, rngs, strict=True)):
            if len(candidates[k]) < count:
                chosen[k] = top(score, count, rng)
        many = [k for k in range(len(pools)) if k not in chosen]
        points = [F.normalize(pools[k].unlabelled("local_last").embeddings[candidates[k]]) for k in many]
        clusters = kmeans_of_all(points, [counts[k] for k in many], [rngs[k] for k in many])
        for k, x, cluster in zip(many, points, clusters, strict=True):
            nearness = -squared_distance_to_mean(x, cluster, counts[k])
            chosen[k] = candidates[k][best_of_each(cluster, nearness, counts[k], rngs[k])]
        return [
            Selection(chosen[k], score[chosen[k]], {"candidates": len(candidates[k])})
            for k, score in enumerate(scores)
        ]


def uncertainties(pool: Pool) -> tuple[Tensor, Tensor]:
    """Compute U1 and U2 of each sample."""
    own = pool.unlabelled("local_last")
    by_global, by_own = (
        torch.cat([pool.unlabelled(model).logits.argmax(1), pool.labels])
        for model in ("global", "local_last")
    )
    shares: dict[str, Tensor] = {}
    for model in ("global", "local_last", "distilled"):
        favourites = neighbours(pool.unlabelled(model).embeddings, pool.labelled(model).embeddings)
        shares[model] = votes(favourites, by_global, len(pool), pool.classes)
        if model == "local_last":
            shares["by own"] = votes(favourites, by_own, len(pool), pool.classes)
    d1 = apart(shares["local_last"], shares["distilled"])
    d2 = apart(shares["global"], shares["distilled"])
    ratio = torch.maximum(d1 / (d2 + EPSILON), d2 / (d1 + EPSILON))
    return ratio * (d1 + d2), apart(shares["by own"], own.probabilities)


def neighbours(unlabelled: Tensor, labelled: Tensor) -> list[Tensor]:
    """Return whom each voter votes for, in parts: first the unlabelled samples, then the labelled ones."""
    x, known = F.normalize(unlabelled), F.normalize(labelled)
    rows, found = max(1, BLOCK // len(x)), []
    for start, part in zip(range(0, len(x), rows), x.split(rows), strict=True):
        cosine = part @ x.T
        cosine.diagonal(start).fill_(-torch.inf)
        found.append(cosine.topk(min(NEIGHBOURS, len(x) - 1), sorted=False).indices)
    for part in known.split(rows):
        found.append((part @ x.T).topk(min(NEIGHBOURS, len(x)), sorted=False).indices)
    return found


def votes(favourites: Sequence[Tensor], labels: Tensor, samples: int, classes: int) -> Tensor:
    """Compute r (samples, classes), from whom each voter votes for and the voters' labels."""
    sizes = [len(part) for part in favourites]
    parts = [
        (part * classes + own[:, None]).flatten()
        for part, own in zip(favourites, labels.split(sizes), strict=True)
    ]
    counts = torch.bincount(torch.cat(parts), minlength=samples * classes).view(samples, classes)
    return (counts + 1) / (counts + 1).sum(1, keepdim=True)


def apart(p: Tensor, q: Tensor) -> Tensor:
    """Compute W(p, q) of each row."""
    return (p.sort(1).values - q.sort(1).values).abs().mean(1)


def above_otsu(values: Tensor) -> Tensor:
    """Return the positions above Otsu's threshold; none if all values are equal.

    The threshold is the value that parts them into two groups whose means differ most: the largest
    w·(1 - w)·(m_1 - m_0)², with w the share of the lower group.
    """
    ordered = values.double().sort().values
    n, ends = len(ordered), torch.arange(1, len(ordered), device=values.device)
    sums = ordered.cumsum(0)
    low, high = sums[:-1] / ends, (sums[-1] - sums[:-1]) / (n - ends)
    between = ends * (n - ends) * (high - low) ** 2
    last = between.argmax() if n > 1 else 0  # of the lower group; between equal values it never is
    return (values.double() > ordered[last]).nonzero().squeeze(1)
