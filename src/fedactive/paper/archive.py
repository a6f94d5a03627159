"""Find the runs behind each of the paper's numbers.

Runs are matched on all settings but the seed. How far a run was meant to go does not matter either: it counts
for every AL round that it has completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from fedactive.experiment import Experiment
from fedactive.paper.settings import all_settings
from fedactive.record.stored import DEFAULTS, Identity, StoredRun, drop_copies


def key_without_seed(settings: Mapping[str, Any]) -> Identity:
    """Return what the runs of one experiment share: everything but the seed."""
    return tuple((name, settings[name]) for name in DEFAULTS if name != "seed")


def precisions(runs: Iterable[StoredRun]) -> list[str]:
    """List the kinds of arithmetic in which there are runs on the paper's datasets."""
    datasets = {setting.dataset for setting in all_settings()}
    identities = [dict(run.identity) for run in runs]
    return sorted({run["precision"] for run in identities if run["dataset"] in datasets})


def shared_precision(runs: Iterable[StoredRun]) -> dict[str, Any]:
    """Return the precision of all of these runs, as a setting to find them by; nothing if they differ in it.

    The paper does not say which it used, so where there is only one there is nothing to choose.
    """
    found = precisions(runs)
    return {"precision": found[0]} if len(found) == 1 else {}


class Archive:
    def __init__(self, runs: Iterable[StoredRun], seeds: int | None = None) -> None:
        """Keep these runs, or only those of seeds 1 to `seeds`; `skipped` says which cannot be used."""
        chosen = [run for run in runs if seeds is None or run.seed in range(1, seeds + 1)]
        distinct, _, self.skipped = drop_copies(run for run in chosen if not run.unknown)
        self.skipped += [run.remark(run.unknown_settings) for run in chosen if run.unknown]
        self.runs: dict[Identity, dict[int, StoredRun]] = {}
        for run in distinct.values():
            self.runs.setdefault(key_without_seed(dict(run.identity)), {})[run.seed] = run

    def find(self, experiment: Experiment) -> list[StoredRun]:
        """List all runs of the experiment, one per seed, whatever seed and rounds it has itself."""
        found = self.runs.get(key_without_seed(vars(experiment)), {})
        return [found[seed] for seed in sorted(found)]

    def reaches(self, experiment: Experiment) -> bool:
        """Has a run of this experiment and seed already completed all its AL rounds?"""
        return any(r.seed == experiment.seed and r.rounds >= experiment.rounds for r in self.find(experiment))

    def curves(self, experiment: Experiment, **columns: str | int) -> pd.DataFrame:
        """Return the learning curves of all its seeds, as `fedactive.analysis.significance` takes them."""
        rows = [(run.seed, *point) for run in self.find(experiment) for point in run.accuracy.items()]
        table = pd.DataFrame(rows, columns=["seed", "al_round", "accuracy"])
        table = table.dropna(subset="accuracy")  # between sites it may be unknown
        return table.assign(labelled=table["al_round"] * experiment.percent, **columns)
