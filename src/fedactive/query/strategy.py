"""The contract of a query strategy, and its registry.

A strategy is a final class with a name (also its name on the command line) that declares which models it
needs. `select` is pure: it sees model outputs through the pool, labels nothing and touches no global state.
`select_all` does the same for all clients of a round; strategies that can serve them together override it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedactive.errors import UserError, unknown_name
from fedactive.options import option
from fedactive.query.kernels import top
from fedactive.query.pool import Outputs, Pool
from fedactive.query.roles import COMMITTEES, MODEL_ROLES, REMEMBERED
from fedactive.registry import STRATEGIES

STRATEGIES.required = ("name", "summary", "paper", "selectors")
register = STRATEGIES.register


@dataclass(frozen=True)
class Selection:
    """What a strategy chose: positions in the unlabelled pool, best first, and the score of each."""

    indices: Tensor
    scores: Tensor
    diagnostics: dict[str, Any] = field(default_factory=dict)


class Strategy(ABC):
    """A way to choose samples to label. Abstract; strategies themselves are final.

    Options are fields of a frozen dataclass, made with `option`. Strategies with which either model may
    choose derive from `OneModelStrategy`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive strategies`
    paper: ClassVar[str]
    # Whose models may choose: ("none",), ("both",), or any of "global" and "local", the default first.
    selectors: ClassVar[tuple[str, ...]]
    # False if it looks only at where samples lie: then it may choose in AL round 1 (`--first`).
    needs_model: ClassVar[bool] = True
    # True if clients agree on a choice through the server: then the others' pools matter, too.
    coordinated: ClassVar[bool] = False
    # How many numbers each client tells the server (see `summarise`).
    numbers: ClassVar[int] = 0
    # True: at every query. False: at the first one with a model, and the mean then stays what it is.
    tells_each_round: ClassVar[bool] = False

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The models whose outputs `select` asks the pool for, by their names in `query/roles.py`."""

    @property
    def remembers(self) -> frozenset[str]:
        """The models among them that clients keep from training."""
        return self.needs & REMEMBERED

    def summarise(self, pool: Pool) -> Tensor | None:
        """Return `numbers` values that say something of this client; None if it has nothing to say.

        They leave the client. The server takes the mean over all clients, each with the same weight, and
        every pool has it as `agreed`.
        """
        return None

    @abstractmethod
    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        """Choose min(budget, len(pool)) different positions of the pool."""

    def select_all(
        self, pools: Sequence[Pool], budget: int, rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        """Choose for each client what `select` would, up to rounding; other clients' pools do not matter.

        They do to a strategy that is `coordinated`.
        """
        return [self.select(pool, budget, rng) for pool, rng in zip(pools, rngs, strict=True)]


class BatchedStrategy(Strategy):
    """Abstract: a strategy that serves all clients of a round together."""

    @abstractmethod
    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        """Choose `counts[k]` positions for each client k: at least one, at most all."""

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        return self.select_all([pool], budget, [rng])[0]

    def select_all(
        self, pools: Sequence[Pool], budget: int, rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        chosen = [Selection(torch.zeros(0, dtype=torch.long), torch.zeros(0)) for _ in pools]
        counts = [min(budget, len(pool)) for pool in pools]
        asked = [k for k, count in enumerate(counts) if count]
        if asked:
            answers = self.choose(
                [pools[k] for k in asked], [counts[k] for k in asked], [rngs[k] for k in asked]
            )
            for k, answer in zip(asked, answers, strict=True):
                chosen[k] = answer
        return chosen


@dataclass(frozen=True)
class OneModelStrategy(Strategy):
    """Abstract: a strategy with one model, the global one or the client's local-only one."""

    selectors = ("global", "local")

    selector: str = "global"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.selector})


@dataclass(frozen=True)
class ScoringStrategy(OneModelStrategy):
    """Abstract: a strategy that scores every sample by itself and takes the highest scores.

    These can also be the micro step of LoGo.
    """

    @abstractmethod
    def score(self, outputs: Outputs) -> Tensor:
        """Score the samples; a higher score is wanted more."""

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        score = self.score(pool.unlabelled(self.selector))
        chosen = top(score, budget, rng)
        return Selection(chosen, score[chosen])


class ScoringNames(Container[str], Iterable[str]):
    """The names of all scoring strategies, including those registered later."""

    def __iter__(self) -> Iterator[str]:
        return (name for name, strategy in STRATEGIES.items() if issubclass(strategy, ScoringStrategy))

    def __contains__(self, name: object) -> bool:
        return name in list(self)


def require_contract(strategy: Strategy, chosen: Selection, size: int, budget: int) -> None:
    """Refuse a selection that is not min(budget, size) different positions with a score each."""
    parts = (chosen.indices, chosen.scores) if isinstance(chosen, Selection) else ()
    if not parts or not all(isinstance(part, Tensor) for part in parts) or parts[0].is_floating_point():
        raise UserError(
            f"strategy {strategy.name} did not return a Selection of two torch tensors, "
            "positions as whole numbers and their scores"
        )
    wanted = min(budget, size)
    right = {i for i in chosen.indices.tolist() if 0 <= i < size}
    if not len(chosen.indices) == len(right) == wanted:
        raise UserError(
            f"strategy {strategy.name} chose {len(chosen.indices)} positions in a pool of {size}, "
            f"{len(right)} of them valid and different; "
            f"it must choose {wanted} (see fedactive.query.contract)"
        )
    if chosen.scores.shape != chosen.indices.shape:
        raise UserError(
            f"strategy {strategy.name} chose {wanted} positions and gave scores of shape "
            f"{tuple(chosen.scores.shape)}; it must give one for each position"
        )


def summary_of(strategy: Strategy, pool: Pool) -> list[float] | None:
    """Return what the client tells the server, checked: as many numbers as declared, all finite."""
    told = strategy.summarise(pool) if strategy.numbers else None
    if told is None:
        return None
    values: list[float] = told.detach().double().flatten().tolist()
    if len(values) != strategy.numbers or not all(map(math.isfinite, values)):
        raise UserError(
            f"strategy {strategy.name} summarised a client as {values}; "
            f"it declares numbers = {strategy.numbers}, and each must be finite"
        )
    return values


def parameter(default: Any, choices: Iterable[Any], help: str) -> Any:
    """Declare an option with a few values, as older strategies do; new ones use `option`."""
    return option(default, help, choices=choices)


def make_strategy(name: str, selector: str, options: str = "") -> Strategy:
    """Make the strategy of that name; `selector` matters only to strategies with one model."""
    made: Strategy = STRATEGIES.make(name, options, selector=selector)
    return made


def require_known_models(strategy: Strategy) -> None:
    """ConfigurationError if a strategy needs a model that does not exist."""
    known = MODEL_ROLES | COMMITTEES
    for model in strategy.needs:
        if model not in known:
            raise unknown_name(f"needs of strategy {strategy.name}", model, known)


STRATEGIES.validate = require_known_models
