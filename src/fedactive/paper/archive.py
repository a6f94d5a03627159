"""Runs by what was run in them, to find those behind each of the paper's numbers.

Runs are matched on all settings but the seed. How far one was to go does not matter either: it counts as far
as it has got, and for everything it passes on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from fedactive.experiment import Experiment
from fedactive.paper.settings import all_settings
from fedactive.record.stored import DEFAULTS, Identity, StoredRun, drop_copies


def key(settings: Mapping[str, Any]) -> Identity:
    """What the runs of one experiment share: everything but the seed."""
    return tuple((name, settings[name]) for name in DEFAULTS if name != "seed")


def precisions(runs: Iterable[StoredRun]) -> list[str]:
    """The kinds of arithmetic in which there are runs on the paper's datasets."""
    datasets = {setting.dataset for setting in all_settings()}
    of_runs = [dict(run.identity) for run in runs]
    return sorted({run["precision"] for run in of_runs if run["dataset"] in datasets})


def shared_precision(runs: Iterable[StoredRun]) -> dict[str, Any]:
    """The arithmetic of all of these runs, as a setting to find them by; nothing if they differ in it.

    The paper does not say which it used, so where there is only one there is nothing to choose.
    """
    found = precisions(runs)
    return {"precision": found[0]} if len(found) == 1 else {}


class Archive:
    def __init__(self, runs: Iterable[StoredRun], seeds: int | None = None) -> None:
        """All of these runs, or those of the first so many seeds; `skipped` says which cannot be used."""
        chosen = [run for run in runs if seeds is None or run.seed in range(1, seeds + 1)]
        distinct, _, self.skipped = drop_copies(run for run in chosen if not run.unknown)
        self.skipped += [run.remark(run.unknown_settings) for run in chosen if run.unknown]
        self.runs: dict[Identity, dict[int, StoredRun]] = {}
        for run in distinct.values():
            self.runs.setdefault(key(dict(run.identity)), {})[run.seed] = run

    def of(self, experiment: Experiment) -> list[StoredRun]:
        """All runs of the experiment, one per seed, whatever seed and rounds it has itself."""
        found = self.runs.get(key(vars(experiment)), {})
        return [found[seed] for seed in sorted(found)]

    def reaches(self, experiment: Experiment) -> bool:
        """Has a run of this experiment and seed already got as far as it is to go?"""
        return any(r.seed == experiment.seed and r.rounds >= experiment.rounds for r in self.of(experiment))

    def curves(self, experiment: Experiment, **columns: str | int) -> pd.DataFrame:
        """The learning curves of all its seeds, as `fedactive.analysis.significance` takes them."""
        parts = [
            pd.DataFrame(
                {"seed": run.seed, "al_round": run.accuracy.index, "accuracy": run.accuracy.to_numpy()}
            )
            for run in self.of(experiment)
            if run.rounds
        ]
        table = pd.concat(
            parts or [pd.DataFrame(columns=["seed", "al_round", "accuracy"])], ignore_index=True
        )
        table = table.dropna(subset="accuracy")  # between sites it may be unknown
        return table.assign(labelled=table["al_round"] * experiment.budget, **columns)
