"""Every table and figure of the paper by name: which runs it needs, which are still to do, what they show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedactive.errors import ConfigurationError, unknown_name
from fedactive.experiment import Experiment
from fedactive.paper.archive import Archive
from fedactive.paper.comparison import observation, penalty, penalty_experiments
from fedactive.paper.tables import TABLES, cells, only, table, table_experiments
from fedactive.record.finding import runs_in
from fedactive.record.stored import StoredRun

NAMES = {
    "accuracy": "test accuracy, four datasets, seven strategies by either model",
    "ensembles": "test accuracy of LoGo and of plain ways to use both models",
    "algorithms": "test accuracy with FedProx and SCAFFOLD",
    "emd": "class balance of what entropy labels, by imbalance and heterogeneity",
    "observation": "Figure 2: whose model is the better selector; the runs of emd",
    "penalty": "Figures 4 and 5: who beats whom over all 38 settings",
    "cost": "seconds per query and client, measured in runs of accuracy",
}


def experiments(
    name: str,
    *,
    until: float | None = None,
    seeds: Sequence[int] | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    alphas: Sequence[float] | None = None,
    rhos: Sequence[float] | None = None,
    **overrides: Any,
) -> list[Experiment]:
    """The runs that a table or figure needs, done or not.

    `until` ends them at that percent labelled; `datasets`, `strategies`, `alphas` and `rhos` leave the others
    out; `overrides` are settings of Experiment (fl_rounds, runs_dir, partition ...); None means the paper's
    own.
    """
    given = {field: value for field, value in overrides.items() if value is not None}
    parts: dict[str, Any] = {"until": until, "seeds": seeds, "datasets": datasets, "strategies": strategies}
    if check(name) == "penalty":
        wanted = penalty_experiments(**parts, **given)
    else:
        wanted = table_experiments("emd" if name == "observation" else name, **parts, **given)
    for field, chosen in (("alpha", alphas), ("rho", rhos)):
        wanted = with_values(field, chosen, wanted)
    return wanted


def with_values(field: str, chosen: Sequence[float] | None, wanted: list[Experiment]) -> list[Experiment]:
    """Those with one of these alphas or rhos, which must occur among them; None is all."""
    known = sorted({getattr(e, field) for e in wanted})
    for value in chosen or ():
        if value not in known:
            raise ConfigurationError(f"{field}s", value, " or ".join(f"{v:g}" for v in known) + " here")
    return [e for e in wanted if chosen is None or getattr(e, field) in chosen]


def remaining(wanted: Iterable[Experiment]) -> list[Experiment]:
    """Those that no run in their runs folder has got far enough for, be it one that was to go further."""
    archives: dict[Path, Archive] = {}
    missing = []
    for experiment in wanted:
        where = experiment.runs_dir
        if where not in archives:
            archives[where] = Archive(runs_in(where).runs if where.exists() else [])  # it may be made later
        if not archives[where].reaches(experiment):
            missing.append(experiment)
    return missing


def show(
    name: str,
    runs: Iterable[StoredRun],
    *,
    until: float | None = None,
    seeds: int | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    **overrides: Any,
) -> pd.DataFrame:
    """What these runs say, beside the paper's numbers where it printed any.

    Runs are found by their settings, so runs made with other settings than the paper's (fl_rounds=20) are
    shown by giving the same overrides. `until`, `datasets` and `strategies` leave rows of tables out, `seeds`
    all seeds but the first so many. See `tables.table`, `comparison.observation` and `comparison.penalty` for
    the columns.
    """
    given = {field: value for field, value in overrides.items() if value is not None}
    if check(name) in ("observation", "penalty") and (until is not None or datasets or strategies):
        needs = "one of printed numbers, with --until, --datasets or --strategies"
        raise ConfigurationError("table", name, needs)
    archive = Archive(runs, seeds)
    if name == "observation":
        return observation(archive, **given)
    if name == "penalty":
        return penalty(archive, **given).rename_axis("strategy").reset_index()
    return table(name, archive, until=until, datasets=datasets, strategies=strategies, **given)


def begins(name: str, datasets: Sequence[str] | None = None) -> float:
    """The percent labelled at which a table's numbers begin; 0 for figures without printed numbers."""
    if check(name) not in TABLES:
        return 0.0
    return min(cell.labelled for cell in only(cells(name), dataset=datasets))


def check(name: str) -> str:
    if name not in NAMES:
        raise unknown_name("table", name, NAMES)
    return name
