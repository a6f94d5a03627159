"""Find the runs of an experiment among those that were read.

Runs are matched on all settings but the seed. How far a run was meant to go does not matter either: it counts
for every AL round that it has completed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedactive.backbones.find import short_name as short_backbone
from fedactive.data.own_file import short_name
from fedactive.experiment import Experiment
from fedactive.record.finding import runs_in
from fedactive.record.stored import DEFAULTS, Identity, StoredRun, drop_copies


def key_without_seed(settings: Mapping[str, Any]) -> Identity:
    """Return what the runs of one experiment share: everything but the seed."""
    return tuple((name, settings[name]) for name in DEFAULTS if name != "seed")


class Archive:
    def __init__(self, runs: Iterable[StoredRun], seeds: Container[int] | None = None) -> None:
        """Keep these runs, or only those of these seeds; `skipped` says which cannot be used."""
        chosen = [run for run in runs if seeds is None or run.seed in seeds]
        distinct, _, self.skipped = drop_copies(run for run in chosen if not run.unknown)
        self.skipped += [run.remark(run.unknown_settings) for run in chosen if run.unknown]
        self.runs: dict[Identity, dict[int, StoredRun]] = {}
        for run in distinct.values():
            self.runs.setdefault(key_without_seed(dict(run.identity)), {})[run.seed] = run

    def find(self, experiment: Experiment) -> list[StoredRun]:
        """List all runs of the experiment, one per seed, whatever seed and rounds it has itself."""
        e = experiment  # a file of the user's own counts by name and content, wherever it lies
        names = {"dataset": short_name(e.dataset), "backbone": short_backbone(e.backbone)}
        found = self.runs.get(key_without_seed(vars(e) | names), {})
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


def remaining(wanted: Iterable[Experiment], *archives: Archive) -> list[Experiment]:
    """List those for which no run has got far enough, in their runs folder or in these archives.

    A run counts even if it was to go further.
    """
    folders: dict[Path, Archive] = {}
    missing = []
    for experiment in wanted:
        where = experiment.runs_dir
        if where not in folders:
            folders[where] = Archive(runs_in(where).runs if where.exists() else [])  # it may be made later
        if not any(archive.reaches(experiment) for archive in (folders[where], *archives)):
            missing.append(experiment)
    return missing
