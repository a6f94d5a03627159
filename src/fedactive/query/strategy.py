"""The contract of a query strategy, and the list of them by name.

A strategy is a final class with a name (also its name on the command line) that declares which models it
needs. `select` is pure: it sees model outputs through the pool, labels nothing and touches no global state.
`select_all` is the same for all clients of a round; strategies that can serve them together say how.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from fedactive.errors import ConfigurationError, UserError, unknown_name
from fedactive.query.kernels import top
from fedactive.query.pool import Outputs, Pool

MODELS = ("global", "local", "finetuned")  # see Strategy.needs


@dataclass(frozen=True)
class Selection:
    """What a strategy chose: positions in the unlabelled pool, best first, and the score of each."""

    indices: Tensor
    scores: Tensor
    diagnostics: dict[str, Any] = field(default_factory=dict)


class Strategy(ABC):
    """Abstract; strategies themselves are final.

    Parameters are fields of a frozen dataclass, made with `parameter`. Those that leave open whose model
    chooses derive from `OneModelStrategy`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive strategies`
    paper: ClassVar[str]
    # Whose models may choose: ("none",), ("both",), or any of "global" and "local", the default first.
    selectors: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The models whose outputs `select` asks the pool for, among

        - "global": the federated model;
        - "local": trained on the client's own labels only, from scratch;
        - "finetuned": the global model, trained on the client's own labels.
        """

    @abstractmethod
    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        """min(budget, len(pool)) different positions of the pool."""

    def select_all(
        self, pools: Sequence[Pool], budget: int, rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        """What `select` chooses for each client: it depends on nobody else's pool, but for rounding."""
        return [self.select(pool, budget, rng) for pool, rng in zip(pools, rngs, strict=True)]


class BatchedStrategy(Strategy):
    """Abstract: a strategy that serves all clients of a round together. One client is a round of one."""

    @abstractmethod
    def choose(
        self, pools: Sequence[Pool], counts: Sequence[int], rngs: Sequence[torch.Generator]
    ) -> list[Selection]:
        """For each client so many positions: at least one, at most all."""

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
    """Abstract: one model chooses, the global one or the client's local-only one."""

    selectors = ("global", "local")

    selector: str = "global"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.selector})


@dataclass(frozen=True)
class ScoringStrategy(OneModelStrategy):
    """Abstract: a strategy that gives every sample a score by itself and takes the highest.

    These can also be the micro step of LoGo.
    """

    @abstractmethod
    def score(self, outputs: Outputs) -> Tensor:
        """How much each sample is wanted."""

    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        score = self.score(pool.unlabelled(self.selector))
        chosen = top(score, budget, rng)
        return Selection(chosen, score[chosen])


OURS = "fedactive.query."  # modules whose names are taken
STRATEGIES: dict[str, type[Strategy]] = {}

S = TypeVar("S", bound=type[Strategy])


class ScoringNames(Container[str], Iterable[str]):
    """The names of all scoring strategies, those registered later too."""

    def __iter__(self) -> Iterator[str]:
        return (name for name, strategy in STRATEGIES.items() if issubclass(strategy, ScoringStrategy))

    def __contains__(self, name: object) -> bool:
        return name in list(self)


def register(strategy: S) -> S:
    """Class decorator: make a strategy known by its name."""
    described = ("name", "summary", "paper", "selectors")
    missing = [*(f for f in described if not hasattr(strategy, f)), *sorted(strategy.__abstractmethods__)]
    if missing:
        raise UserError(f"strategy {strategy.__name__} lacks {', '.join(missing)}")
    # Results are filed under the name. One's own may be registered again, as a notebook's cell does.
    taken = STRATEGIES.get(strategy.name, strategy).__module__
    if taken.startswith(OURS) and strategy.__module__ != taken:
        raise UserError(f"a strategy named {strategy.name} comes with fedactive, choose another name")
    STRATEGIES[strategy.name] = strategy
    return strategy


def require_contract(strategy: Strategy, chosen: Selection, size: int, budget: int) -> None:
    """So many different positions of the pool as asked for: a mistake must not become a result."""
    parts = (chosen.indices, chosen.scores) if isinstance(chosen, Selection) else ()
    if not parts or not all(isinstance(part, Tensor) for part in parts) or parts[0].is_floating_point():
        raise UserError(
            f"strategy {strategy.name} returned something else than a Selection of two torch tensors, "
            "positions as whole numbers and their scores"
        )
    wanted = min(budget, size)
    right = {i for i in chosen.indices.tolist() if 0 <= i < size}
    if not len(chosen.indices) == len(right) == wanted:
        raise UserError(
            f"strategy {strategy.name} chose {len(chosen.indices)} positions in a pool of {size}, "
            f"{len(right)} of them valid and different; it must be {wanted} (see fedactive.query.contract)"
        )
    if chosen.scores.shape != chosen.indices.shape:
        raise UserError(
            f"strategy {strategy.name} chose {wanted} positions and gave scores of shape "
            f"{tuple(chosen.scores.shape)}; it must be one for each position"
        )


def parameter(default: Any, choices: Iterable[Any], help: str) -> Any:
    """A field of a strategy, text or a number, that can be set with --strategy-options name=value."""
    return field(default=default, metadata={"choices": choices, "help": help})


def parameters_of(strategy: type[Strategy]) -> list[dataclasses.Field[Any]]:
    fields: dict[str, dataclasses.Field[Any]] = getattr(strategy, "__dataclass_fields__", {})
    return [item for item in fields.values() if "choices" in item.metadata]


def parse_options(name: str, text: str) -> dict[str, Any]:
    """`a=x,b=y` as the parameters of the strategy, checked; those that only repeat a default are left out."""
    known = {f.name: f for f in parameters_of(STRATEGIES[name])}
    given_already = set()
    options = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, given = (piece.strip() for piece in part.partition("="))
        if key not in known:
            if not known:
                raise ConfigurationError("strategy_options", text, f"nothing: {name} has no options")
            raise unknown_name("strategy_options", key, known)
        if key in given_already:
            raise ConfigurationError("strategy_options", text, f"{key} once")
        given_already.add(key)
        value = _choice(known[key], given)
        if value != known[key].default:
            options[key] = value
    return dict(sorted(options.items()))


def _choice(item: dataclasses.Field[Any], text: str) -> Any:
    """The choice that is written so, or that is the same number."""
    choices = {str(choice): choice for choice in item.metadata["choices"]}
    default: Any = item.default
    kind = type(default)
    if text not in choices and kind is not bool:  # of which every text would be true
        with suppress(ValueError):
            number = kind(text)
            text = next((written for written, choice in choices.items() if choice == number), text)
    if text not in choices:
        raise unknown_name(f"strategy_options: {item.name}", text, choices)
    return choices[text]


def make_strategy(name: str, selector: str, options: str = "") -> Strategy:
    """The strategy of that name; `selector` matters only to those by one model."""
    if name not in STRATEGIES:
        raise unknown_name("strategy", name, STRATEGIES)
    strategy = STRATEGIES[name]
    arguments = parse_options(name, options)
    # Also where there is only one choice: it need not be the default of OneModelStrategy.
    if len(strategy.selectors) > 1 or issubclass(strategy, OneModelStrategy):
        arguments["selector"] = selector
    made = strategy(**arguments)
    for model in made.needs:
        if model not in MODELS:
            raise unknown_name(f"needs of strategy {name}", model, MODELS)
    return made
