"""Who wins, over the paper's settings: the penalty matrix, its categories, and the better selector.

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023, Figures 2, 4, 5.
The paper prints no numbers for these figures, so there are only ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from fedactive.analysis.significance import (
    AVERAGE,
    THRESHOLDS,
    penalty_matrix,
    winning_rate,
    winning_rates,
)
from fedactive.errors import unknown_name
from fedactive.experiment import Experiment
from fedactive.paper.settings import CATEGORIES, COMPARED, all_settings
from fedactive.paper.tables import cells
from fedactive.record.archive import Archive

EXACT = "exact"  # the threshold that follows the number of seeds, see THRESHOLDS
RATES = ["global_wins", "local_wins", "gap"]


def limit_of(threshold: str) -> float | None:
    if threshold not in THRESHOLDS:
        raise unknown_name("threshold", threshold, THRESHOLDS)
    return THRESHOLDS[threshold]


def setting_curves(archive: Archive, **overrides: Any) -> pd.DataFrame:
    """Return learning curves by the numbers of the 38 settings, with the paper's names of strategies.

    Those of one seed are left out: they cannot be tested, and a strategy that nobody beats would look good.
    """
    found = cells("penalty", **overrides)
    parts = []
    for cell in [cell for cell in found if len(archive.find(cell.experiment)) > 1] or found[:1]:
        columns = {name: cell.columns[name] for name in ("setting", "strategy")}
        parts.append(curves_of_all_seeds(archive, cell.experiment, **columns))
    tested = [part for part in parts if len(set(part["seed"])) > 1]
    return pd.concat(tested or [parts[0].head(0)], ignore_index=True)


def curves_of_all_seeds(archive: Archive, experiment: Experiment, **columns: str | int) -> pd.DataFrame:
    """Return the experiment's learning curves as far as all of its seeds have got.

    With the paper's fixed threshold, AL rounds of fewer seeds would be won and lost by chance more often.
    """
    curves = archive.curves(experiment, **columns)
    return curves[curves.groupby("al_round")["seed"].transform("nunique") == curves["seed"].nunique()]


def penalty(archive: Archive, threshold: str = EXACT, **overrides: Any) -> pd.DataFrame:
    """Return the 7 × 7 penalty matrix (Figure 5) of the settings with runs of two seeds."""
    return in_paper_order(penalty_matrix(setting_curves(archive, **overrides), limit_of(threshold)))


def penalty_by(
    category: str, archive: Archive, threshold: str = EXACT, **overrides: Any
) -> dict[str, pd.DataFrame]:
    """Return the penalty matrix for each value of a category, over the settings with runs of two seeds.

    `attrs["settings"]` of a matrix is their number, `attrs["counts"]` that of each strategy.
    """
    if category not in CATEGORIES:
        raise unknown_name("category", category, CATEGORIES)
    curves = setting_curves(archive, **overrides)
    values = curves["setting"].map({s.number: CATEGORIES[category](s) for s in all_settings()})
    matrices = {}
    for value, part in curves.groupby(values, sort=False):
        matrix = matrices[str(value)] = in_paper_order(penalty_matrix(part, limit_of(threshold)))
        matrix.attrs |= {"settings": part["setting"].nunique(), "counts": count_settings(part)}
    return matrices


def settings_with_runs(archive: Archive, **overrides: Any) -> dict[str, int]:
    """Count for each strategy the settings in which it has runs of two seeds, in the paper's order."""
    return count_settings(setting_curves(archive, **overrides))


def count_settings(curves: pd.DataFrame) -> dict[str, int]:
    counts = curves.groupby("strategy")["setting"].nunique()
    return {name: int(counts[name]) for name in COMPARED if name in counts}


def in_paper_order(matrix: pd.DataFrame) -> pd.DataFrame:
    order = [name for name in COMPARED if name in matrix.columns]
    return matrix.loc[[*order, AVERAGE], order]


def win_shares(archive: Archive, threshold: str = EXACT, **overrides: Any) -> pd.DataFrame:
    """Compare LoGo with each baseline, by category (Figure 4).

    The columns are `category, value, baseline, win, defeat, settings`. Win and defeat are percent: the mean
    winning rate over those of the category's settings in which the pair could be tested, `settings` of them.
    """
    rates = winning_rates(setting_curves(archive, **overrides), limit_of(threshold))
    rates = rates[rates["rounds"] > 0].assign(rate=100 * rates["rate"])
    win = rates[rates["i"] == "logo"].rename(columns={"j": "baseline", "rate": "win"})
    defeat = rates[rates["j"] == "logo"].rename(columns={"i": "baseline", "rate": "defeat"})
    pairs = win[["setting", "baseline", "win"]].merge(defeat[["setting", "baseline", "defeat"]])
    members = [(s.number, name, value(s)) for name, value in CATEGORIES.items() for s in all_settings()]
    places = pd.DataFrame(members, columns=["setting", "category", "value"])
    grouped = places.merge(pairs, on="setting").groupby(["category", "value", "baseline"], sort=False)
    shares = grouped.agg(win=("win", "mean"), defeat=("defeat", "mean"), settings=("win", "size"))
    return shares.reset_index()


def observation(archive: Archive, threshold: str = EXACT, **overrides: Any) -> pd.DataFrame:
    """Compare entropy by the global with entropy by the local-only model (Figure 2), on the EMD table's runs.

    One row per rho and alpha: the winning rates `global_wins` and `local_wins`, their `gap` (positive where
    the global model is the better selector), the AL `rounds` tested, the `seeds` in common, and a `note`.
    """
    rows = []
    pairs = {(c.experiment.rho, c.experiment.alpha): c.experiment for c in cells("emd", **overrides)}
    for (rho, alpha), experiment in pairs.items():
        by_global, by_local = (
            curves_of_all_seeds(archive, replace(experiment, selector=model), strategy=model)
            for model in ("global", "local")
        )
        seeds = len(set(by_global["seed"]) & set(by_local["seed"]))
        row: dict[str, Any] = {"rho": rho, "alpha": alpha, "rounds": 0, "seeds": seeds}
        if seeds:
            both = pd.concat([by_global, by_local], ignore_index=True)
            limit = limit_of(threshold)
            win = winning_rate(both, "global", "local", limit)
            defeat = winning_rate(both, "local", "global", limit)
            row |= {"rounds": win.rounds, "note": win.reason}
            if win.rounds:  # without a test nobody wins
                row |= zip(RATES, (win.rate, defeat.rate, win.rate - defeat.rate), strict=True)
        rows.append({"note": "no runs of both"} | row)
    columns = ["rho", "alpha", *RATES, "rounds", "seeds", "note"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(RATES, float))
