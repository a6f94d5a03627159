"""Every figure of the paper by name: what it is made of, and one sentence where runs are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedactive.analysis.diversity import matrices_in
from fedactive.analysis.significance import winning
from fedactive.data.loader import load
from fedactive.errors import RunError, unknown_name
from fedactive.experiment import Experiment
from fedactive.laboratory.split import split
from fedactive.paper import FIGURES
from fedactive.paper.agreement import all_accuracies
from fedactive.paper.comparison import EXACT, limit_of, observation, penalty_by, win_shares
from fedactive.paper.drawings import (
    Imbalance,
    Matrices,
    draw_agreement,
    draw_bars,
    draw_clients,
    draw_cost,
    draw_curves,
    draw_matrices,
    draw_observation,
    draw_penalty,
)
from fedactive.paper.settings import COMPARED, all_settings
from fedactive.paper.tables import cells, table
from fedactive.record.archive import Archive

LETTERS = {"global": "G", "local": "L"}  # whose model chooses, as in the paper's tables


@dataclass(frozen=True)
class FigureRequest:
    """What a figure is made of, and where it is written."""

    archive: Archive
    path: Path
    data_dir: Path = Path("data")
    setting: int | None = None  # the number of one setting; None is all of them
    category: str = "overall"
    threshold: str = EXACT
    overrides: dict[str, Any] = field(default_factory=dict)  # settings of Experiment in which runs differ


def figure(name: str, request: FigureRequest) -> None:
    """Draw a figure of the paper."""
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    DRAW[name](request)


def observation_figure(request: FigureRequest) -> None:
    gaps = observation(request.archive, request.threshold, **request.overrides)
    if gaps["gap"].isna().all():
        raise NoRunsError(
            "entropy by the global and by the local-only model with two seeds in common", "observation"
        )
    draw_observation(gaps, request.path)


def matrices_figure(request: FigureRequest) -> None:
    """Show the first AL round, from the first seed that has trained local-only models on its labels."""
    found: dict[Imbalance, Matrices] = {}
    for where, experiment in imbalances(request).items():
        for run in request.archive.find(experiment):
            matrices = matrices_in(run, 1) if run.rounds else None
            if matrices is not None:
                found.setdefault(where, matrices)
    if not found:
        raise NoRunsError("entropy by the local-only model that have completed two AL rounds", "emd")
    draw_matrices(found, request.path)


def clients_figure(request: FigureRequest) -> None:
    """Show the partition: it needs the data, but no runs."""
    counts = {}
    for where, experiment in imbalances(request).items():
        data = load(experiment.dataset, request.data_dir)
        labels, C = data.train_labels.numpy(), len(data.classes)
        pools = split(experiment, data.train_labels, C).pools
        counts[where] = np.array([np.bincount(labels[pool], minlength=C) for pool in pools])
    draw_clients(counts, request.path)


def imbalances(request: FigureRequest) -> dict[Imbalance, Experiment]:
    """Return the EMD table's experiments by the local-only model, one for each rho and alpha."""
    return {
        (cell.experiment.rho, cell.experiment.alpha): cell.experiment
        for cell in cells("emd", **request.overrides)
        if cell.experiment.selector == "local"
    }


def bars_figure(request: FigureRequest) -> None:
    shares = win_shares(request.archive, request.threshold, **request.overrides)
    if shares.empty:
        raise NoRunsError("LoGo and a baseline with two seeds in common in any of the 38 settings", "penalty")
    draw_bars(shares, request.path, winning(limit_of(request.threshold)))


def penalty_figure(request: FigureRequest) -> None:
    matrices = penalty_by(request.category, request.archive, request.threshold, **request.overrides)
    if not matrices:
        raise NoRunsError("any of the 38 settings with two seeds", "penalty")
    draw_penalty(matrices, request.path, winning(limit_of(request.threshold)))


def curves_figure(request: FigureRequest) -> None:
    draw_curves(curves_of(request.archive, request.setting, **request.overrides), request.path)


def curves_of(archive: Archive, number: int | None, **overrides: Any) -> dict[str, pd.DataFrame]:
    """Return the learning curves of a setting, or of all that have runs, by title.

    Two settings that differ only in whose model chooses share a title, with Random and LoGo once.
    """
    titles = {s.title for s in all_settings() if number in (None, s.number)}
    found: dict[str, list[pd.DataFrame]] = {}
    for setting in all_settings():
        for name in COMPARED:
            experiment = setting.experiment(name, **overrides)
            line = f"{name} {LETTERS.get(experiment.selector, '')}".strip()
            curves = archive.curves(experiment, strategy=line)
            if setting.title in titles and len(curves):
                found.setdefault(setting.title, []).append(curves)
    if not found:
        raise NoRunsError(titles.pop() if len(titles) == 1 else "any of the 38 settings", "penalty")
    return {title: pd.concat(parts).drop_duplicates() for title, parts in found.items()}


def agreement_figure(request: FigureRequest) -> None:
    accuracies = all_accuracies(request.archive, **request.overrides)
    if accuracies["seeds"].sum() == 0:
        raise NoRunsError("the tables of accuracies", "accuracy")
    draw_agreement(accuracies, request.path)


def cost_figure(request: FigureRequest) -> None:
    costs = table("cost", request.archive, **request.overrides)
    if costs["seeds"].sum() == 0:
        raise NoRunsError("the accuracy table on cifar10 that have completed two AL rounds", "cost")
    draw_cost(costs, request.path)


DRAW: dict[str, Callable[[FigureRequest], None]] = {
    "observation": observation_figure,
    "matrices": matrices_figure,
    "bars": bars_figure,
    "penalty": penalty_figure,
    "curves": curves_figure,
    "clients": clients_figure,
    "cost": cost_figure,
    "agreement": agreement_figure,
}


class NoRunsError(RunError):
    """There are no runs to draw a figure from; it needs those of `table`."""

    def __init__(self, what: str, table: str) -> None:
        super().__init__(f"there are no runs of {what}; `fedactive paper run {table}` makes them")
        self.table = table
