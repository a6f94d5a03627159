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
    percent: bool = True  # is it shown to people as percent?
    lower_is_better: bool = False

    @property
    def heading(self) -> str:
        """The heading of a column in a report."""
        return f"{self.title} (%)" if self.percent else self.title

    @property
    def scale(self) -> int:
        """What to multiply the value by, to show it."""
        return 100 if self.percent else 1

    def show(self, scaled: float) -> str:
        """Format a scaled value; a dash if it is not known."""
        return "–" if math.isnan(scaled) else f"{scaled:.1f}" if self.percent else f"{scaled:.3f}"


def balanced_accuracy(evaluation: Evaluation) -> float:
    """Compute the mean of the classes' accuracies, over those that have test images."""
    return _mean([share for share in evaluation.class_accuracy if not math.isnan(share)])


def macro_f1(evaluation: Evaluation) -> float:
    """Compute the mean of the classes' F1 = 2·right / (tested + predicted), over those that occur."""
    counts = zip(evaluation.right, evaluation.tested, evaluation.predicted, strict=True)
    return _mean([2 * right / (tested + guessed) for right, tested, guessed in counts if tested + guessed])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", lambda evaluation: evaluation.accuracy),
    "loss": Metric(
        "loss", lambda evaluation: evaluation.loss, high=math.inf, percent=False, lower_is_better=True
    ),
    "balanced_accuracy": Metric("balanced accuracy", balanced_accuracy),
    "macro_f1": Metric("macro F1", macro_f1),
}


def measure(evaluation: Evaluation) -> dict[str, Any]:
    """Compute the measured columns of metrics.parquet."""
    values: dict[str, Any] = {name: metric.formula(evaluation) for name, metric in METRICS.items()}
    return values | {"class_accuracy": evaluation.class_accuracy}


# ------------------------------------------------------------------------------------ columns of tables


def metrics_columns() -> dict[str, pa.DataType]:
    """Return the columns of metrics.parquet, which has a row for each evaluated model."""
    return {
        "al_round": pa.int64(),
        "fl_round": pa.int64(),  # of the global model
        "labelled": pa.int64(),
        "model": pa.string(),  # global or local
        "client": pa.int64(),  # of a local-only model
        **dict.fromkeys(METRICS, pa.float64()),
        "class_accuracy": pa.list_(pa.float64()),
    }


SELECTIONS = dict.fromkeys(("al_round", "client", "sample", "label"), pa.int64())  # a row per labelled sample
TIMINGS = {"al_round": pa.int64(), "phase": pa.string(), "seconds": pa.float64()}

FACTS = ("hardware", "software", "started", "finished")


def results_columns(settings: dict[str, Any]) -> dict[str, pa.DataType]:
    """Return the columns of a results file, which has a row for each run and completed AL round.

    `settings` are those that decide results, with their defaults. The accuracy is a list over all FL rounds,
    other metrics are means over the last ones.
    """
    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    shares = pa.list_(pa.float64())
    return {
        "run": pa.string(),
        **{name: kinds[type(default)] for name, default in settings.items()},
        **dict.fromkeys(FACTS, pa.string()),
        "samples": pa.int32(),  # of all clients
        "ended_after": pa.int32(),  # AL rounds, if it is finished
        "al_round": pa.int16(),
        "labelled": pa.int32(),
        **dict.fromkeys(METRICS, pa.float64()),
        "accuracy": shares,
        "class_accuracy": shares,
        "local_class_accuracy": pa.list_(shares),
        "queried": pa.list_(pa.list_(pa.int32())),
        "seconds": pa.map_(pa.string(), pa.float64()),
    }


def newer_columns() -> set[str]:
    """Return the columns that an older results file may lack."""
    return {"samples", "ended_after", *METRICS} - {"accuracy"}
