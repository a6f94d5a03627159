"""Every table and figure of the paper by name: which runs it needs, and what they show."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from fedactive.errors import ConfigurationError, unknown_name
from fedactive.experiment import Experiment
from fedactive.paper import TABLES
from fedactive.paper.comparison import EXACT, observation, penalty
from fedactive.paper.settings import SEEDS, SEEDS_OF_ALGORITHMS
from fedactive.paper.tables import PRINTED, Cell, cells, stop_at, table
from fedactive.record.archive import Archive
from fedactive.record.stored import StoredRun


def experiments(
    name: str,
    *,
    until: float | None = None,
    seeds: Sequence[int] | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    alphas: Sequence[float] | None = None,
    rhos: Sequence[float] | None = None,
    settings: Container[int] | None = None,
    **overrides: Any,
) -> list[Experiment]:
    """List the runs that a table or figure needs, done or not, each as far as its last number.

    `until` ends them at that percent labelled; `datasets`, `strategies`, `alphas` and `rhos` leave the others
    out, `settings` those of `penalty` with other numbers; `overrides` are settings of Experiment (fl_rounds,
    runs_dir, partition ...). In `penalty` a setting whose first budget is beyond `until` has no runs.
    """
    if settings is not None and name != "penalty":
        raise ConfigurationError("table", name, "penalty, with --settings")
    source = "emd" if check_name(name) == "observation" else name
    last: dict[str, Cell] = {}  # by an experiment's name: settings share experiments
    for cell in cells(source, datasets=datasets, strategies=strategies, **overrides):
        if settings is not None and cell.columns["setting"] not in settings:
            continue
        known = last.setdefault(cell.experiment.name, cell)
        if cell.labelled > known.labelled:
            last[cell.experiment.name] = cell
    if seeds is None:
        seeds = SEEDS_OF_ALGORITHMS if name == "algorithms" else SEEDS
    # Seed by seed: if it is stopped early, all rows have the same seeds. But the 912 runs of `penalty` go
    # setting by setting, since one seed of all settings compares nothing.
    ordered = [(cell, seed) for seed in seeds for cell in last.values()]
    if name == "penalty":
        shortest = min((cell.experiment.percent for cell in last.values()), default=0)
        begun = [c for c in last.values() if until is None or not shortest <= until < c.experiment.percent]
        ordered = list(product(begun, seeds))
    wanted = [replace(stop_at(cell.experiment, cell.labelled, until), seed=seed) for cell, seed in ordered]
    for field, values in (("alpha", alphas), ("rho", rhos)):
        wanted = with_values(wanted, field, values)
    return wanted


def with_values(wanted: list[Experiment], field: str, chosen: Sequence[float] | None) -> list[Experiment]:
    """Return those with one of these alphas or rhos, which must occur among them; None is all."""
    known = sorted({getattr(e, field) for e in wanted})
    for value in chosen or ():
        if value not in known:
            raise ConfigurationError(f"{field}s", value, " or ".join(f"{v:g}" for v in known) + " here")
    return [e for e in wanted if chosen is None or getattr(e, field) in chosen]


def show(
    name: str,
    runs: Iterable[StoredRun],
    *,
    until: float | None = None,
    seeds: Container[int] | None = None,
    threshold: str = EXACT,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    **overrides: Any,
) -> pd.DataFrame:
    """Return what these runs say, beside the paper's numbers where it printed any.

    Runs are found by their settings: to show runs that were made with other settings than the paper's
    (fl_rounds=20), give the same `overrides`. `until`, `datasets` and `strategies` leave out rows of tables,
    `seeds` keeps only these; the `threshold` is for winning rates. For the columns see `tables.table`,
    `comparison.observation` and `comparison.penalty`.
    """
    if check_name(name) not in PRINTED and (until is not None or datasets or strategies):
        needs = "one of printed numbers, with --until, --datasets or --strategies"
        raise ConfigurationError("table", name, needs)
    archive = Archive(runs, seeds)
    if name == "observation":
        return observation(archive, threshold, **overrides)
    if name == "penalty":
        return penalty(archive, threshold, **overrides).rename_axis("strategy").reset_index()
    return table(name, archive, until=until, datasets=datasets, strategies=strategies, **overrides)


def first_percent(name: str, datasets: Sequence[str] | None = None) -> float:
    """Return the percent labelled at which a table's numbers begin; 0 for figures without printed numbers."""
    if name not in PRINTED:
        return 0.0
    return min(cell.labelled for cell in cells(name, datasets=datasets))


def check_name(name: str) -> str:
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    return name
