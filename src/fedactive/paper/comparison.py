"""Who wins, over the paper's settings: the penalty matrix, its categories, and the selector's observation.

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Figures 2, 4, 5.
These figures are published without numbers, so ours stand alone here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from fedactive.analysis.significance import (
    AVERAGE,
    PAPER_THRESHOLD,
    penalty_matrix,
    winning_rate,
    winning_rates,
)
from fedactive.errors import unknown_name
from fedactive.experiment import Experiment
from fedactive.paper.archive import Archive
from fedactive.paper.settings import COMPARED, SEEDS, PaperSetting, all_settings, experiments_of
from fedactive.paper.tables import among, cells, stop_at

OVERALL = "overall"
CATEGORIES = (OVERALL, *all_settings()[0].categories)


def penalty_experiments(
    *,
    until: float | None = None,
    seeds: Sequence[int] | None = None,
    datasets: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    **overrides: Any,
) -> list[Experiment]:
    """The runs of all 38 settings, as far as the paper labels; those that two settings share appear once."""
    found: dict[str, Experiment] = {}
    kept = among("dataset", datasets, {setting.dataset for setting in all_settings()})
    compared = [name for name in COMPARED if name in among("strategy", strategies, set(COMPARED))]
    seeds = SEEDS if seeds is None else seeds
    for setting in all_settings():
        if setting.dataset in kept:
            for experiment in experiments_of(setting, compared, seeds, **overrides):
                experiment = stop_at(experiment, experiment.rounds * experiment.budget, until)
                found.setdefault(experiment.name, experiment)
    return list(found.values())


def setting_curves(archive: Archive, **overrides: Any) -> pd.DataFrame:
    """Learning curves by the numbers of the 38 settings, with the paper's names of strategies.

    Those of one seed are left out: without a test nobody beats them, which would look good.
    """
    parts = [
        to_test(archive, setting.experiment(name, **overrides), setting=setting.number, strategy=name)
        for setting in all_settings()
        for name in COMPARED
    ]
    tested = [part for part in parts if len(set(part["seed"])) > 1]
    return pd.concat(tested or [parts[0].head(0)], ignore_index=True)


def to_test(archive: Archive, experiment: Experiment, **columns: str | int) -> pd.DataFrame:
    """The experiment's learning curves as far as all of its seeds have got: with the paper's threshold fewer
    seeds than elsewhere would win, and lose, more often by chance.
    """
    curves = archive.curves(experiment, **columns)
    return curves[curves.groupby("al_round")["seed"].transform("nunique") == curves["seed"].nunique()]


def penalty(archive: Archive, **overrides: Any) -> pd.DataFrame:
    """The 7 × 7 penalty matrix (Figure 5) of the settings with runs of two seeds, in the paper's order."""
    return in_order(penalty_matrix(setting_curves(archive, **overrides)))


def penalty_by(category: str, archive: Archive, **overrides: Any) -> dict[str, pd.DataFrame]:
    """The penalty matrix over the settings of each value of a category, of those with runs of two seeds.

    `attrs["settings"]` of a matrix is their number, `attrs["counts"]` that of each strategy.
    """
    if category not in CATEGORIES:
        raise unknown_name("category", category, CATEGORIES)
    curves = setting_curves(archive, **overrides)
    values = curves["setting"].map({setting.number: places(setting)[category] for setting in all_settings()})
    matrices = {}
    for value, part in curves.groupby(values, sort=False):
        matrices[str(value)] = in_order(penalty_matrix(part))
        matrices[str(value)].attrs |= {"settings": part["setting"].nunique(), "counts": _counts(part)}
    return matrices


def settings_with_runs(archive: Archive, **overrides: Any) -> dict[str, int]:
    """In how many of the 38 settings each strategy has runs of two seeds, in the paper's order."""
    return _counts(setting_curves(archive, **overrides))


def _counts(curves: pd.DataFrame) -> dict[str, int]:
    counts = curves.groupby("strategy")["setting"].nunique()
    return {name: int(counts[name]) for name in COMPARED if name in counts}


def in_order(matrix: pd.DataFrame) -> pd.DataFrame:
    order = [name for name in COMPARED if name in matrix.columns]
    return matrix.loc[[*order, AVERAGE], order]


def places(setting: PaperSetting) -> dict[str, str]:
    """Where a setting stands in each category; all stand in the first one."""
    return {OVERALL: ""} | setting.categories


def win_shares(archive: Archive, **overrides: Any) -> pd.DataFrame:
    """LoGo against each baseline, by category (Figure 4): `category, value, baseline, win, defeat, settings`.

    Win and defeat are percent: the mean winning rate over those of the category's settings that could be
    tested for this pair, `settings` of them.
    """
    rates = winning_rates(setting_curves(archive, **overrides))
    rates = rates[rates["rounds"] > 0].assign(rate=100 * rates["rate"])
    win = rates[rates["i"] == "logo"].rename(columns={"j": "baseline", "rate": "win"})
    defeat = rates[rates["j"] == "logo"].rename(columns={"i": "baseline", "rate": "defeat"})
    pairs = win[["setting", "baseline", "win"]].merge(
        defeat[["setting", "baseline", "defeat"]], on=["setting", "baseline"]
    )
    members = pd.DataFrame(
        [
            (setting.number, category, places(setting)[category])
            for category in CATEGORIES
            for setting in all_settings()
        ],
        columns=["setting", "category", "value"],
    )
    grouped = members.merge(pairs, on="setting").groupby(["category", "value", "baseline"], sort=False)
    shares = grouped.agg(win=("win", "mean"), defeat=("defeat", "mean"), settings=("win", "size"))
    return shares.reset_index()


def observation(archive: Archive, *, threshold: float = PAPER_THRESHOLD, **overrides: Any) -> pd.DataFrame:
    """Entropy by the global against the local-only model (Figure 2), on the runs of the EMD table.

    One row per rho and alpha: the winning rates `global_wins` and `local_wins`, their `gap` (positive where
    the global model is the better selector), the AL `rounds` tested, the `seeds` in common, and a `note`.
    """
    rows = []
    pairs = {(c.experiment.rho, c.experiment.alpha): c.experiment for c in cells("emd", **overrides)}
    for (rho, alpha), experiment in pairs.items():
        models = ("global", "local")
        curves = {m: to_test(archive, replace(experiment, selector=m), strategy=m) for m in models}
        seeds = len(set(curves["global"]["seed"]) & set(curves["local"]["seed"]))
        row: dict[str, Any] = {"rho": rho, "alpha": alpha, "seeds": seeds}
        if seeds:
            both = pd.concat(list(curves.values()), ignore_index=True)
            ahead, behind = (winning_rate(both, *pair, threshold) for pair in (models, models[::-1]))
            row |= {"global_wins": ahead.rate, "local_wins": behind.rate, "gap": ahead.rate - behind.rate}
            row |= {"rounds": ahead.rounds, "note": ahead.reason}
            if not ahead.rounds:
                row |= dict.fromkeys(("global_wins", "local_wins", "gap"))  # without a test nobody wins
        rows.append({"rounds": 0, "note": "no runs of both"} | row)
    columns = ["rho", "alpha", "global_wins", "local_wins", "gap", "rounds", "seeds", "note"]
    return pd.DataFrame(rows, columns=columns).astype(
        {"global_wins": float, "local_wins": float, "gap": float}
    )
