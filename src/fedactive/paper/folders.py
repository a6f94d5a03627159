"""Run folders as sources of the paper's numbers: which experiment, how far it got, what was measured.

A run counts as far as it has got, and for everything it passes on its way: `rounds` only says where it was
to stop, so runs are matched on all settings but that one and the seed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedactive.analysis.diversity import global_emd, local_emd
from fedactive.data.catalog import DATASETS
from fedactive.experiment import Experiment
from fedactive.settings import settings_of
from fedactive.state import round_accuracy

Key = tuple[tuple[str, Any], ...]

DEFAULTS = {item.name: item.default for item in settings_of(Experiment)}
QUERY_PHASES = ("local-only training", "scoring", "selection")  # evaluations are for us, not for the query
MATCHED = [
    item.name for item in settings_of(Experiment) if item.identity and item.name not in ("rounds", "seed")
]


def key(settings: Mapping[str, Any]) -> Key:
    """What two runs must share to be the same experiment; settings older than a run's folder are defaults."""
    return tuple((name, settings.get(name, DEFAULTS[name])) for name in MATCHED)


@dataclass(frozen=True)
class StoredRun:
    """A run folder, read as needed."""

    folder: Path
    settings: dict[str, Any]  # as written: the strategy may be a plugin that is not loaded here

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def rounds(self) -> int:
        """AL rounds completed."""
        return int(self.accuracy.index.max()) if len(self.accuracy) else 0

    @cached_property
    def metrics(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "metrics.parquet")

    @cached_property
    def selections(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "selections.parquet")

    @cached_property
    def accuracy(self) -> pd.Series:
        """Percent, by AL round; nothing while the first round is going on."""
        if not (self.folder / "metrics.parquet").exists():
            return pd.Series(dtype=float)
        return 100 * round_accuracy(self.metrics)

    def labels(self, al_round: int) -> list[NDArray[np.int64]]:
        """The labels that each client had in that AL round."""
        until = self.selections[self.selections["al_round"] <= al_round]
        return [labels.to_numpy(np.int64) for _, labels in until.groupby("client")["label"]]

    # --- the measures of the tables, for an AL round that is completed

    def accuracy_in(self, al_round: int) -> float:
        return float(self.accuracy[al_round])

    def local_emd_in(self, al_round: int) -> float:
        return local_emd(self.labels(al_round), len(DATASETS[self.settings["dataset"]].classes))

    def global_emd_in(self, al_round: int) -> float:
        return global_emd(self.labels(al_round), len(DATASETS[self.settings["dataset"]].classes))

    def query_seconds_in(self, al_round: int) -> float:
        """Seconds that the query of that round took, per client."""
        timings = pd.read_parquet(self.folder / "timings.parquet").set_index(["al_round", "phase"])["seconds"]
        asked = [timings.get((al_round, phase), 0.0) for phase in QUERY_PHASES]
        return float(sum(asked)) / int(self.settings["clients"])


def run_folders(runs_dir: Path) -> list[Path]:
    """The run folders in a folder of runs."""
    return sorted(path.parent for path in runs_dir.glob("*/experiment.toml"))


class Archive:
    """Run folders by what was run in them."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.runs: dict[Key, dict[int, StoredRun]] = {}
        for folder in folders:
            run = StoredRun(folder, tomllib.loads((folder / "experiment.toml").read_text()))
            same = self.runs.setdefault(key(run.settings), {})
            # Two runs of one seed that differ in where they stop agree as far as both go: keep the longer.
            if run.seed not in same or run.rounds > same[run.seed].rounds:
                same[run.seed] = run

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
        return table.assign(labelled=table["al_round"] * experiment.budget, **columns)
