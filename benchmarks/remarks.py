"""Remark 2 of the paper, counted: how often does LoGo's query have a lower M than other queries?

    python benchmarks/remarks.py [--pools 500]

M is the least transport cost between the clusters' centroids and the query (see docs/REMARKS.md). Pools are
random mixtures of Gaussians in the local-only model's embedding space, with random predictions of both
models; every query has as many samples as there are clusters.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from fedactive.analysis.diversity import transport_cost
from fedactive.query.contract import make_pool
from fedactive.query.pool import Pool
from fedactive.query.strategies.badge import Badge
from fedactive.query.strategies.entropy import Entropy
from fedactive.query.strategies.logo import LoGo
from fedactive.query.strategies.random import Random

Indices = NDArray[np.int64]


def random_pool(seed: int) -> tuple[Pool, int]:
    """200 to 600 samples around 5 to 20 centres in 4 to 32 dimensions, and a budget of 10 to 40."""
    rng = torch.Generator().manual_seed(seed)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=rng))

    n, d, groups = between(200, 600), between(4, 32), between(5, 20)
    centres = 3 * torch.randn(groups, d, generator=rng)
    z = centres[torch.randint(groups, (n,), generator=rng)] + torch.randn(n, d, generator=rng)
    return make_pool(n, 10, dimensions=d, seed=seed, embeddings=z.relu()), between(10, 40)


def one_moved(cluster: Indices, chosen: Indices, rng: np.random.Generator) -> Indices:
    """The same query but for one sample, given up for a second one of some other cluster."""
    lost = rng.integers(len(chosen))
    others = np.setdiff1d(np.flatnonzero(cluster != cluster[chosen[lost]]), chosen)
    moved = chosen.copy()
    moved[lost] = rng.choice(others)
    return moved


def main(pools: Annotated[int, typer.Option(help="number of random pools")] = 500) -> None:
    lower: dict[str, list[bool]] = {}
    for seed in range(pools):
        pool, budget = random_pool(seed)
        selection = LoGo().select(pool, budget, torch.Generator().manual_seed(seed))
        points = pool.unlabelled("local").hallucinated_gradient.numpy()
        cluster, chosen = selection.diagnostics["cluster"].numpy(), selection.indices.numpy()
        logo, _ = transport_cost(points, cluster, chosen)
        rivals = {
            "LoGo, one pick moved to another cluster": one_moved(cluster, chosen, np.random.default_rng(seed))
        }
        for strategy in (Entropy("global"), Entropy("local"), Badge("local"), Random()):
            name = f"{strategy.name} {getattr(strategy, 'selector', '')}"
            rivals[name] = strategy.select(pool, budget, torch.Generator().manual_seed(seed)).indices.numpy()
        for name, query in rivals.items():
            if len(np.unique(cluster[query])) < budget:  # two of one cluster, as the remark has it
                lower.setdefault(name, []).append(logo < transport_cost(points, cluster, query)[0])
    print(f"{pools} random pools\n")
    print(f"{'compared with':44}pools   M of LoGo is lower in")
    for name, results in lower.items():
        print(f"{name:44}{len(results):5}   {np.mean(results):8.1%}")


if __name__ == "__main__":
    typer.run(main)
