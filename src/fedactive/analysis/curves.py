"""Learning curves: test accuracy of the global model against how much is labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedactive.analysis.results import read_runs


def learning_curves(folders: Sequence[str | Path]) -> pd.DataFrame:
    """Make a row for each run and AL round: `setting, strategy, seed, al_round, labelled, labels, accuracy`.

    `labelled` and `accuracy` are percent, `labels` are counted. The setting says what differs between the
    runs besides strategy and seed; it is empty if nothing does.
    """
    return read_runs(folders).curves


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean accuracy over seeds: a row per strategy, best in the last AL round first."""
    table = curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc="mean")
    return table.sort_values(table.columns[-1], ascending=False)


def accuracy_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Compute `mean`, `std` and `seeds` of the accuracy by strategy, best at the end first, and AL round."""
    by_round = curves.groupby(["strategy", "al_round"])["accuracy"]
    table = pd.DataFrame({"mean": by_round.mean(), "std": by_round.std(), "seeds": by_round.count()})
    return table.loc[list(mean_curves(curves).index)]


@dataclass(frozen=True)
class Axis:
    """What curves are drawn over."""

    column: str  # of the curves
    title: str
    short: str  # for a table

    def by_round(self, curves: pd.DataFrame) -> pd.Series:
        """Compute how much is labelled after each AL round; it stays the same once samples run out."""
        return curves.groupby("al_round")[self.column].mean()

    def headings(self, values: np.ndarray) -> list[str]:
        return percents(values) if self is PERCENT else [f"{value:.0f}" for value in values]


PERCENT = Axis("labelled", "labelled (% of all samples)", "labelled (%)")
LABELS = Axis("labels", "labels of all clients", "labels")


def axis_of(curves: pd.DataFrame) -> Axis:
    """Return the axis in which the budgets were given: the number of labels if all count them, or percent."""
    return LABELS if "counted" in curves and curves["counted"].all() else PERCENT


def steps_grow(labelled: pd.Series) -> bool:
    """Return whether a linear axis would press the first rounds together."""
    steps = labelled.diff().dropna()
    return len(steps) > 1 and bool(steps.iloc[-1] >= 10 * steps.iloc[0])


def percents(values: np.ndarray) -> list[str]:
    """Write numbers as percentages, with as few digits as tell them apart."""
    apart = np.unique(np.round(values, 3))  # where samples run out, rounds may have the same
    step = np.diff(apart).min() if len(apart) > 1 else apart[0]
    digits = next((d for d in range(3) if np.abs(values - values.round(d)).max() <= step / 8), 3)
    return [f"{value:.{digits}f}%" for value in values]
