"""The contract that every strategy keeps, as a check for the tests of your own strategy.

from fedactive.query.contract import check_contract
check_contract(MyStrategy())
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fedactive.query.pool import Outputs, Pool
from fedactive.query.roles import COMMITTEES, MODEL_ROLES
from fedactive.query.strategy import Strategy, summary_of

MEMBERS = 3  # models of a committee in a pool that is made for a test
MOST_NUMBERS = 16  # that a client may tell the server: a summary, not data


def make_pool(
    n: int,
    classes: int,
    *,
    labelled: int = 5,
    dimensions: int = 4,
    seed: int = 0,
    logits: Tensor | None = None,
    embeddings: Tensor | None = None,
) -> Pool:
    """Make a pool with random outputs of all models, or with these `logits` and `embeddings`."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng)

    def outputs() -> Outputs:
        y, z = normal(n, classes) * 2, normal(n, dimensions)
        return Outputs(y if logits is None else logits, z if embeddings is None else embeddings)

    unlabelled, known, heads = {}, {}, {}
    for model in MODEL_ROLES:
        unlabelled[model] = outputs()
        known[model] = Outputs(normal(labelled, classes), normal(labelled, dimensions))
        heads[model] = (normal(classes, dimensions), normal(classes))
    several = {name: [outputs() for _ in range(MEMBERS)] for name in COMMITTEES}
    labels = torch.randint(classes, (labelled,), generator=torch.Generator().manual_seed(seed))
    images = torch.randint(256, (n, 1, 4, 4), generator=rng, dtype=torch.uint8)
    if embeddings is not None:  # which may be those of duplicates
        images = images[:1].expand(n, -1, -1, -1)
    weights = {model: (normal(16, classes), normal(16, dimensions)) for model in MODEL_ROLES}

    def infer(model: str, inputs: Tensor) -> Outputs:
        pixels = inputs.float().flatten(1) / 255
        return Outputs(*(pixels @ weight for weight in weights[model]))

    return Pool(
        n,
        classes,
        labels,
        unlabelled.__getitem__,
        known.__getitem__,
        heads.__getitem__,
        lambda name: iter(several[name]),
        inputs=lambda positions: images[positions],
        infer=infer,
    )


def everything(pool: Pool) -> list[Tensor]:
    """Return all outputs of all models on the unlabelled samples."""
    seen = [pool.unlabelled(model) for model in MODEL_ROLES]
    seen += [outputs for name in COMMITTEES for outputs in pool.each(name)]
    return [tensor for outputs in seen for tensor in (outputs.logits, outputs.embeddings)]


def check_selection(strategy: Strategy, pool: Pool, budget: int, seed: int = 0) -> list[int]:
    """Check the budget, no repeats, valid positions, finite scores, one answer per seed, no side effects."""
    seen = everything(pool)
    before = [tensor.clone() for tensor in seen]
    global_state = torch.random.get_rng_state()
    if strategy.numbers:
        told = summary_of(strategy, pool)
        assert told == summary_of(strategy, pool), "the same client was summarised in another way"
        pool.agreed = None if told is None else torch.tensor(told, dtype=torch.float64)

    first, again = (strategy.select(pool, budget, torch.Generator().manual_seed(seed)) for _ in range(2))
    chosen: list[int] = first.indices.tolist()
    assert len(chosen) == min(budget, len(pool)), f"{len(chosen)} chosen, budget {budget}, pool {len(pool)}"
    assert len(set(chosen)) == len(chosen), "a sample was chosen twice"
    assert all(0 <= i < len(pool) for i in chosen), "a position outside the pool"
    assert len(first.scores) == len(chosen), f"{len(first.scores)} scores for {len(chosen)} chosen samples"
    assert bool(torch.isfinite(first.scores).all()), "a score that is not finite"
    assert chosen == again.indices.tolist(), "the same seed gave another answer"

    for tensor, as_it_was in zip(seen, before, strict=True):
        assert torch.equal(tensor, as_it_was), "logits or embeddings were changed"
    assert torch.equal(global_state, torch.random.get_rng_state()), "torch's global generator was used"
    return chosen


def check_round(strategy: Strategy, sizes: Sequence[int], budget: int) -> None:
    """Check that a client gets the same answer together with others as alone, unless they are to agree."""
    pools = [make_pool(n, 3, labelled=5 + k, seed=k) for k, n in enumerate(sizes)]

    def rngs() -> list[torch.Generator]:
        return [torch.Generator().manual_seed(k) for k in range(len(pools))]

    together = strategy.select_all(pools, budget, rngs())
    assert len(together) == len(pools), f"{len(together)} selections for {len(pools)} clients"
    for pool, rng, selection in zip(pools, rngs(), together, strict=True):
        assert len(set(selection.indices.tolist())) == min(budget, len(pool)), "not as many as asked for"
        if strategy.coordinated:
            continue
        alone = strategy.select(pool, budget, rng)
        assert selection.indices.tolist() == alone.indices.tolist(), "another client changed the answer"
        assert torch.allclose(selection.scores, alone.scores, rtol=1e-4, atol=1e-5), (
            "another client changed the scores"
        )


def check_contract(strategy: Strategy) -> None:
    """Check every part of the contract; AssertionError says what the strategy breaks."""
    assert 0 <= strategy.numbers <= MOST_NUMBERS, f"{strategy.numbers} numbers of a client, not a few"
    for n, budget in ((1, 1), (1, 5), (30, 0), (30, 7), (30, 30), (30, 50), (200, 20)):
        for classes in (1, 2, 10):
            check_selection(strategy, make_pool(n, classes, labelled=8), budget)
    check_selection(strategy, make_pool(40, 5, labelled=0), 10)  # nothing is labelled yet

    alike = torch.ones(40, 4)
    check_selection(strategy, make_pool(40, 3, embeddings=alike), 10)  # duplicate points
    check_selection(strategy, make_pool(40, 3, embeddings=torch.zeros(40, 4)), 10)
    for certainty in (1e4, 1e30):  # probabilities that are exactly 0 and 1
        check_selection(strategy, make_pool(40, 4, logits=torch.eye(4).repeat(10, 1) * certainty), 6)

    tied = make_pool(40, 3, logits=torch.zeros(40, 3), embeddings=alike)
    answers = {tuple(check_selection(strategy, tied, 5, seed)) for seed in range(6)}
    assert len(answers) > 1, "ties are not broken by the seed"

    check_round(strategy, sizes=(40, 1, 0, 25, 90), budget=10)  # pools of many sizes, one of them empty
    check_round(strategy, sizes=(30, 12), budget=0)

    pool = make_pool(20, 3)
    asked: set[str] = set()

    def spy(view: Callable[[str], Any]) -> Callable[[str], Any]:
        def ask(model: str) -> Any:
            asked.add(model)
            return view(model)

        return ask

    views = (pool.unlabelled, pool.labelled, pool.head, pool.each)
    pool.unlabelled, pool.labelled, pool.head, pool.each = map(spy, views)
    infer = pool.infer
    pool.infer = lambda model, inputs: spy(lambda name: infer(name, inputs))(model)
    summary_of(strategy, pool)
    strategy.select(pool, 5, torch.Generator())
    assert asked <= strategy.needs, f"asked for {sorted(asked)}, declared {sorted(strategy.needs)}"
