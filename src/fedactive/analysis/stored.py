"""One run as it is kept, in a run folder or in a results file: what analyses need of its AL rounds.

A run counts as far as it has got.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedactive.analysis.diversity import accuracy_matrix, count_matrix, emd_by_round, global_emd, local_emd
from fedactive.analysis.reading import read_queried, read_settings, read_starts, readable
from fedactive.errors import RunError
from fedactive.experiment import Experiment
from fedactive.settings import settings_of
from fedactive.state import LAST_FL_ROUNDS

DEFAULTS = {item.name: item.default for item in settings_of(Experiment) if item.identity}
MACHINE = {item.name for item in settings_of(Experiment) if not item.identity}  # decide no results
QUERY_PHASES = ("local-only training", "scoring", "selection")  # evaluations are for us, not for the query

Identity = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class ALRound:
    """What a completed AL round has left."""

    al_round: int
    labelled: int  # by all clients, so far
    accuracy: list[float]  # of the global model after each FL round, as a share
    class_accuracy: list[float]  # of the global model at the end
    local_class_accuracy: list[list[float]]  # of each client's local-only model, if there were any
    queried: list[list[int]]  # labels bought in this round, by client and class; empty if sites keep them
    seconds: dict[str, float]  # by phase


@dataclass(frozen=True)
class Content:
    facts: dict[str, str | None]  # hardware, software, when started and finished
    al_rounds: list[ALRound]


@dataclass(frozen=True)
class StoredRun:
    where: Path
    name: str
    settings: dict[str, Any]
    read: Callable[[], Content]  # when it is needed: most tables need a few runs of many

    @property
    def identity(self) -> Identity:
        """What two runs must share to be the same; settings newer than the run are defaults."""
        return tuple((name, self.settings.get(name, default)) for name, default in DEFAULTS.items())

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @cached_property
    def content(self) -> Content:
        return self.read()

    @property
    def rounds(self) -> int:
        """AL rounds completed."""
        return len(self.content.al_rounds)

    # --- the measures of tables and figures, for an AL round that is completed

    @cached_property
    def accuracy(self) -> pd.Series:
        """Percent, by AL round: the mean of the last five FL rounds."""
        return pd.Series(
            {r.al_round: 100 * float(np.mean(r.accuracy[-LAST_FL_ROUNDS:])) for r in self.content.al_rounds},
            dtype=float,
        )

    @cached_property
    def queried(self) -> NDArray[np.int64]:
        """Counts of labels by AL round, client and class."""
        return np.array([r.queried for r in self.content.al_rounds], dtype=np.int64)

    @cached_property
    def emd(self) -> pd.DataFrame:
        """Local and global EMD, see `diversity.emd_by_round`."""
        return emd_by_round(self.queried)

    def labelled(self, al_round: int) -> NDArray[np.int64]:
        """Counts of all labels so far by client and class."""
        counts: NDArray[np.int64] = self.queried[:al_round].sum(axis=0)
        return counts

    def accuracy_in(self, al_round: int) -> float:
        return float(self.accuracy[al_round])

    def local_emd_in(self, al_round: int) -> float:
        return float(local_emd(self.labelled(al_round)))

    def global_emd_in(self, al_round: int) -> float:
        return float(global_emd(self.labelled(al_round)))

    def query_seconds_in(self, al_round: int) -> float:
        """Seconds that the query of that round took, per client."""
        seconds = self.content.al_rounds[al_round - 1].seconds
        return sum(seconds.get(phase, 0.0) for phase in QUERY_PHASES) / int(self.settings["clients"])

    def matrices_in(self, al_round: int) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """Labels and class-wise accuracy, if local-only models were trained on that round's labels.

        They are trained at the next query, by strategies that use them.
        """
        this = self.content.al_rounds[al_round - 1]
        if not this.local_class_accuracy:
            return None
        counts = count_matrix(self.labelled(al_round))
        return counts, accuracy_matrix(this.local_class_accuracy, this.class_accuracy)


def longest(runs: Iterable[StoredRun]) -> dict[Identity, StoredRun]:
    """One run of each identity, the one that got furthest. Those of one identity must agree so far."""
    kept: dict[Identity, StoredRun] = {}
    for run in runs:
        other = kept.setdefault(run.identity, run)
        if other is not run:
            common = min(run.rounds, other.rounds)
            if not run.accuracy[:common].equals(other.accuracy[:common]):
                raise RunError(
                    f"{other.where} and {run.where} both have {run.name}, with different results; "
                    "leave one of them out"
                )
            if run.rounds > other.rounds:
                kept[run.identity] = run
    return kept


# -------------------------------------------------------------------------------------------- a run folder


def run_folder(folder: Path) -> StoredRun:
    """The run in a folder, read when needed."""
    return StoredRun(folder, folder.name, read_settings(folder), lambda: _content(folder))


def _content(folder: Path) -> Content:
    facts = read_starts(folder) | {"finished": None}
    if (folder / "done.json").exists():
        with readable(folder, "done.json") as file:
            facts["finished"] = json.loads(file.read_text())["finished"]
    if not (folder / "metrics.parquet").exists():  # the first AL round is going on
        return Content(facts, [])
    with readable(folder, "metrics.parquet") as file:
        columns = ["al_round", "fl_round", "labelled", "model", "client", "accuracy", "class_accuracy"]
        metrics = pq.read_table(file, columns=columns).to_pandas()
        whole = metrics[metrics["model"] == "global"].sort_values(["al_round", "fl_round"])
        local = metrics[metrics["model"] == "local"].sort_values(["al_round", "client"])
        last = whole.drop_duplicates("al_round", keep="last").set_index("al_round")
        accuracy = whole.groupby("al_round")["accuracy"].agg(list)
        local_accuracy = local.groupby("al_round")["class_accuracy"].agg(list)
        classes = len(last["class_accuracy"].iloc[0])
    queried = read_queried(folder, classes).tolist() or [[] for _ in last.index]
    with readable(folder, "timings.parquet") as file:
        timings = pq.read_table(file).to_pandas()
        seconds = {
            r: dict(zip(t["phase"], t["seconds"], strict=True)) for r, t in timings.groupby("al_round")
        }
    al_rounds = [
        ALRound(
            al_round=int(r),
            labelled=int(last.loc[r, "labelled"]),
            accuracy=accuracy[r],
            class_accuracy=last.loc[r, "class_accuracy"].tolist(),
            local_class_accuracy=[row.tolist() for row in local_accuracy.get(r, [])],
            queried=queried[r - 1],
            seconds=seconds.get(r, {}),
        )
        for r in last.index
        if r <= len(queried)  # a run that is going on may be writing its tables just now
    ]
    return Content(facts, al_rounds)
