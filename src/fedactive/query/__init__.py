"""Query strategies: one file, one strategy. Importing this package registers those that come with it."""

from fedactive.query.entropy import Entropy
from fedactive.query.logo import LoGo
from fedactive.query.pool import Outputs, Pool
from fedactive.query.random import Random
from fedactive.query.strategy import STRATEGIES, Selection, Strategy, make_strategy, register

__all__ = [
    "STRATEGIES",
    "Entropy",
    "LoGo",
    "Outputs",
    "Pool",
    "Random",
    "Selection",
    "Strategy",
    "make_strategy",
    "register",
]
