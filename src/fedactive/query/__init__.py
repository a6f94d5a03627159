"""What to label next: the contract of a strategy. `strategies/` has one file for each strategy."""

from fedactive.options import option
from fedactive.query.pool import Outputs, Pool
from fedactive.query.strategy import (
    BatchedStrategy,
    OneModelStrategy,
    ScoringStrategy,
    Selection,
    Strategy,
    make_strategy,
    parameter,
    register,
)
from fedactive.registry import STRATEGIES

__all__ = [
    "STRATEGIES",
    "BatchedStrategy",
    "OneModelStrategy",
    "Outputs",
    "Pool",
    "ScoringStrategy",
    "Selection",
    "Strategy",
    "make_strategy",
    "option",
    "parameter",
    "register",
]
