"""The contract of a query strategy, and the list of them by name.

A strategy is a final class with a name (also its name on the command line) that declares which models it
needs. `select` is pure: it sees model outputs through the pool, labels nothing and touches no global state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from fedactive.errors import unknown_name
from fedactive.query.pool import Pool


@dataclass(frozen=True)
class Selection:
    """What a strategy chose: positions in the unlabelled pool, best first, and the score of each."""

    indices: Tensor
    scores: Tensor
    diagnostics: dict[str, Any] = field(default_factory=dict)


class Strategy(ABC):
    """Abstract; strategies themselves are final. Parameters are fields of a frozen dataclass."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `fedactive strategies`
    paper: ClassVar[str]
    # Whose models may choose: "none", "both", or any of "global" and "local" (the first is the default).
    selectors: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The models whose outputs `select` asks the pool for: any of "global" and "local"."""

    @abstractmethod
    def select(self, pool: Pool, budget: int, rng: torch.Generator) -> Selection:
        """min(budget, len(pool)) different positions of the pool."""


STRATEGIES: dict[str, type[Strategy]] = {}

S = TypeVar("S", bound=type[Strategy])


def register(strategy: S) -> S:
    """Class decorator: make a strategy known by its name."""
    STRATEGIES[strategy.name] = strategy
    return strategy


def make_strategy(name: str, selector: str) -> Strategy:
    """The strategy of that name; `selector` matters only to those that leave the choice open."""
    if name not in STRATEGIES:
        raise unknown_name("strategy", name, STRATEGIES)
    strategy = STRATEGIES[name]
    return strategy(selector=selector) if len(strategy.selectors) > 1 else strategy()  # type: ignore[call-arg]
