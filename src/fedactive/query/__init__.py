"""Query strategies: one file, one strategy. Importing this package registers those that come with it."""

from fedactive.query import plugins
from fedactive.query.alfamix import AlfaMix
from fedactive.query.badge import Badge
from fedactive.query.coreset import Coreset
from fedactive.query.ensemble_logit import EnsembleLogit
from fedactive.query.ensemble_rank import EnsembleRank
from fedactive.query.entropy import Entropy
from fedactive.query.finetune import FineTune
from fedactive.query.gcnal import GCNAL
from fedactive.query.least_confidence import LeastConfidence
from fedactive.query.logo import LoGo
from fedactive.query.margin import Margin
from fedactive.query.pool import Outputs, Pool
from fedactive.query.random import Random
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
