"""Federated active learning: LoGo and its rivals, from the paper to real sites.

import fedactive
experiment = fedactive.Experiment(
    dataset="digits", augment="none", strategy="logo", clients=5, rounds=3, fl_rounds=10
)
result = fedactive.run(experiment)
print(result.accuracy)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "Callback",
    "Dataset",
    "Experiment",
    "Result",
    "Results",
    "Silent",
    "compare",
    "load",
    "load_model",
    "load_results",
    "run",
]

if TYPE_CHECKING:
    from fedactive.analysis.load_results import load_results
    from fedactive.api import Result, Results, compare, load, run
    from fedactive.data.dataset import Dataset
    from fedactive.experiment import Experiment
    from fedactive.export.trained_model import load_model
    from fedactive.progress import Callback, Silent

LAZY = {
    "Callback": "progress",
    "Dataset": "data.dataset",
    "Experiment": "experiment",
    "Result": "api",
    "Results": "api",
    "Silent": "progress",
    "compare": "api",
    "load": "api",
    "load_model": "export.trained_model",
    "load_results": "analysis.load_results",
    "run": "api",
}


def __getattr__(name: str) -> Any:
    """Import the public names when first used: the command line and worker processes start without them."""
    if name not in LAZY:
        raise AttributeError(f"module 'fedactive' has no attribute {name!r}")
    return getattr(import_module(f"fedactive.{LAZY[name]}"), name)


def __dir__() -> list[str]:
    """List also the names that are not imported yet, so that notebooks complete them."""
    return [*globals(), *__all__]
