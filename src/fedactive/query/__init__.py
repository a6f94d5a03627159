"""Query strategies: one file, one strategy. Importing this package registers those that come with it."""

from fedactive.query import plugins
from fedactive.query.pool import Outputs, Pool
from fedactive.query.strategies.alfamix import AlfaMix
from fedactive.query.strategies.badge import Badge
from fedactive.query.strategies.coreset import Coreset
from fedactive.query.strategies.ensemble_logit import EnsembleLogit
from fedactive.query.strategies.ensemble_rank import EnsembleRank
from fedactive.query.strategies.entropy import Entropy
from fedactive.query.strategies.finetune import FineTune
from fedactive.query.strategies.gcnal import GCNAL
from fedactive.query.strategies.least_confidence import LeastConfidence
from fedactive.query.strategies.logo import LoGo
from fedactive.query.strategies.margin import Margin
from fedactive.query.strategies.random import Random
from fedactive.query.strategy import (
    STRATEGIES,
    BatchedStrategy,
    OneModelStrategy,
    ScoringStrategy,
    Selection,
    Strategy,
    make_strategy,
    parameter,
    register,
)

__all__ = [
    "GCNAL",
    "STRATEGIES",
    "AlfaMix",
    "Badge",
    "BatchedStrategy",
    "Coreset",
    "EnsembleLogit",
    "EnsembleRank",
    "Entropy",
    "FineTune",
    "LeastConfidence",
    "LoGo",
    "Margin",
    "OneModelStrategy",
    "Outputs",
    "Pool",
    "Random",
    "ScoringStrategy",
    "Selection",
    "Strategy",
    "make_strategy",
    "parameter",
    "register",
]

plugins.load_installed()
