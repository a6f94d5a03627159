"""The schema of what runs leave on disk: the metrics, and the columns of every table.

A metric is one entry of METRICS. Its column in metrics.parquet, its type and range when it is read, its place
in the report and its column in exported results all follow from that entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fedactive.evaluation import Evaluation


@dataclass(frozen=True)
class Metric:
    """A number that says how good a model is."""

    title: str  # for people
    formula: Callable[[Evaluation], float]  # NaN where there are no test images
    low: float = 0.0
    high: float = 1.0
    percent: bool = True  # does the report show it as percent?

    def show(self, value: float) -> str:
        """Write the value as the report does; a dash if it is not known."""
        if math.isnan(value):
            return "–"
        return f"{100 * value:.1f}" if self.percent else f"{value:.3f}"

    @property
    def heading(self) -> str:
        return f"{self.title} (%)" if self.percent else self.title


def balanced_accuracy(evaluation: Evaluation) -> float:
    """The mean of the classes' accuracies, over those that have test images."""
    return _mean([share for share in evaluation.class_accuracy if not math.isnan(share)])


def macro_f1(evaluation: Evaluation) -> float:
    """The mean of the classes' F1 = 2·right / (tested + predicted), over those that occur in either."""
    counts = zip(evaluation.right, evaluation.tested, evaluation.predicted, strict=True)
    return _mean([2 * right / (tested + guessed) for right, tested, guessed in counts if tested + guessed])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", lambda evaluation: evaluation.accuracy),
    "loss": Metric("loss", lambda evaluation: evaluation.loss, high=math.inf, percent=False),
    "balanced_accuracy": Metric("balanced accuracy", balanced_accuracy),
    "macro_f1": Metric("macro F1", macro_f1),
}


def measure(evaluation: Evaluation) -> dict[str, Any]:
    """Compute the measured columns of metrics.parquet."""
    values: dict[str, Any] = {name: metric.formula(evaluation) for name, metric in METRICS.items()}
    return values | {"class_accuracy": evaluation.class_accuracy}


# ------------------------------------------------------------------------------------ columns of tables


def metrics_columns() -> dict[str, pa.DataType]:
    """The columns of metrics.parquet: one row per evaluated model."""
    return {
        "al_round": pa.int64(),
        "fl_round": pa.int64(),  # of the global model
        "labelled": pa.int64(),
        "model": pa.string(),  # global or local
        "client": pa.int64(),  # of a local-only model
        **dict.fromkeys(METRICS, pa.float64()),
        "class_accuracy": pa.list_(pa.float64()),
    }
