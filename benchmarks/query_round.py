"""The selection of a whole round: all clients at once against one after another, on a GPU if there is one.

    python benchmarks/query_round.py [--clients 10] [--pool 4750] [--budget 250] [--trials 3] [--device auto]

Pools are synthetic, so no dataset is needed: outputs like those of a trained model. What is measured is what
`Strategy.select_all` and `Strategy.select` do from the models' outputs on, up to positions on the host. Both
take turns within each trial.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated

import torch
import typer
from torch import Tensor

from fedactive.engines import choose_device, usable_cores
from fedactive.query import Outputs, Pool, Selection, make_strategy
from fedactive.record.environment import cpu_name

CLASSES, EMBEDDING = 10, 256
STRATEGIES_OF_A_ROUND = ("entropy", "coreset", "badge", "gcnal", "alfamix", "logo")


def synthetic_outputs(n: int, seed: int) -> Outputs:
    """Outputs like those of a trained model: sparse non-negative features, a few doubtful predictions."""
    rng = torch.Generator().manual_seed(seed)
    of_class, mixing = torch.randn(CLASSES, 32, generator=rng) * 2, torch.randn(32, EMBEDDING, generator=rng)
    label = torch.arange(n) % CLASSES
    hidden = (of_class[label] + torch.randn(n, 32, generator=rng)) @ mixing / 32**0.5
    z = torch.relu(hidden - 0.5 + 0.5 * torch.randn(n, EMBEDDING, generator=rng))
    head = torch.stack([z[label == c].mean(0) for c in range(CLASSES)]) - z.mean(0)
    logits = (z - z.mean(0)) @ head.T
    return Outputs(logits * 2 / logits.std(), z)


def synthetic_pool(unlabelled: int, labelled: int, seed: int, device: torch.device) -> Callable[[], Pool]:
    """A client, anew at each call: pools keep what they have computed, and each trial shall compute it."""
    outputs: dict[str, tuple[Tensor, Tensor]] = {}
    for i, model in enumerate(("global", "local")):
        made = synthetic_outputs(unlabelled + labelled, 2 * seed + i)
        outputs[model] = made.logits.to(device), made.embeddings.to(device)
    # A last layer that has learnt nothing, so that ALFA-Mix finds more candidates than it may choose.
    weight = torch.randn(CLASSES, EMBEDDING, generator=torch.Generator().manual_seed(seed)).to(device)
    head = weight, torch.zeros(CLASSES, device=device)
    labels = (torch.arange(unlabelled + labelled) % CLASSES)[unlabelled:].to(device)

    def part(of: slice) -> Callable[[str], Outputs]:
        views = {model: Outputs(logits[of], z[of]) for model, (logits, z) in outputs.items()}
        return views.__getitem__

    def make() -> Pool:
        known, new = slice(unlabelled, None), slice(unlabelled)
        return Pool(unlabelled, CLASSES, labels, part(new), part(known), lambda model: head)

    return make


def positions(selections: list[Selection]) -> list[set[int]]:
    return [set(selection.indices.tolist()) for selection in selections]


def main(
    clients: Annotated[int, typer.Option(help="clients of the round")] = 10,
    pool: Annotated[int, typer.Option(help="unlabelled samples of each")] = 4750,
    budget: Annotated[int, typer.Option(help="samples to choose for each")] = 250,
    trials: Annotated[int, typer.Option(help="measurements of each")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    place = choose_device(device)
    gpu = place.type == "cuda"

    def wait() -> None:
        if gpu:
            torch.cuda.synchronize()

    makers = [synthetic_pool(pool, budget, k, place) for k in range(clients)]
    where = torch.cuda.get_device_name() if gpu else f"{cpu_name()}, {usable_cores()} cores"
    print(f"{where}, torch {torch.__version__}: seconds of selection for {clients} clients, pools of {pool},")
    print(f"embedding {EMBEDDING}, B = {budget}; median of {trials} trials, one more before them to warm up.")
    print("same: share of a client's samples chosen both ways; GB: of GPU memory, at once\n")
    print(f"{'strategy':10} selector {'at once':>9} {'one by one':>11} {'faster':>8} {'same':>7} {'GB':>7}")
    for name in STRATEGIES_OF_A_ROUND:
        strategy = make_strategy(name, "local")
        seconds: dict[str, list[float]] = {"at once": [], "one by one": []}
        same: list[float] = []
        memory = 0
        for trial in range(trials + 1):
            chosen: dict[str, list[set[int]]] = {}
            for way, taken in seconds.items():
                pools = [make() for make in makers]
                rngs = [torch.Generator().manual_seed(1000 * trial + k) for k in range(clients)]
                wait()
                if gpu:
                    torch.cuda.reset_peak_memory_stats()
                held = torch.cuda.memory_allocated() if gpu else 0
                begun = time.perf_counter()
                if way == "at once":
                    selections = strategy.select_all(pools, budget, rngs)
                else:
                    selections = [strategy.select(p, budget, rng) for p, rng in zip(pools, rngs, strict=True)]
                chosen[way] = positions(selections)
                wait()
                if trial:
                    taken.append(time.perf_counter() - begun)
                if gpu and way == "at once":
                    memory = max(memory, torch.cuda.max_memory_allocated() - held)
            same += [len(a & b) / len(a) for a, b in zip(*chosen.values(), strict=True)]
        fast, slow = (statistics.median(taken) for taken in seconds.values())
        selector = "both" if strategy.selectors == ("both",) else "local"
        numbers = f"{fast:9.3f} {slow:11.3f} {slow / fast:7.1f}x {statistics.mean(same):7.1%}"
        print(f"{name:10} {selector:8} {numbers} {memory / 1e9 if gpu else float('nan'):7.2f}", flush=True)


if __name__ == "__main__":
    typer.run(main)
