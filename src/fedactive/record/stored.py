"""One run as it is kept, in a run folder or in a results file: what analyses need of its AL rounds.

A run counts as far as it has got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedactive.analysis.diversity import accuracy_matrix, count_matrix, emd_by_round, global_emd, local_emd
from fedactive.data.own_file import short_name
from fedactive.errors import RunError
from fedactive.experiment import Experiment
from fedactive.federation import QUERY_PHASES
from fedactive.options import options_of
from fedactive.record.state import mean_of_last

DEFAULTS = {item.name: item.default for item in options_of(Experiment) if item.identity}
MACHINE = {item.name for item in options_of(Experiment) if not item.identity}  # decide no results

Identity = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class ALRound:
    """What a completed AL round has left."""

    al_round: int
    labelled: int  # by all clients, so far
    accuracy: list[float]  # of the global model after each FL round, as a share; NaN: not measured
    class_accuracy: list[float]  # of the global model at the end
    local_class_accuracy: list[list[float]]  # of each client's local-only model, if there were any
    queried: list[list[int]]  # labels bought in this round, by client and class; empty if sites keep them
    seconds: dict[str, float]  # by phase


@dataclass(frozen=True)
class Content:
    facts: dict[str, str | None]  # hardware, software, dates, if training `diverged`; empty if just begun
    al_rounds: list[ALRound]
    samples: int | None = None  # of all clients, if known


@dataclass(frozen=True)
class StoredRun:
    where: Path  # the run folder, or the results file
    name: str
    settings: dict[str, Any]
    read: Callable[[], Content]  # when it is needed: most tables need a few runs of many

    @cached_property
    def identity(self) -> Identity:
        """What two runs must share to be the same; settings newer than the run are defaults.

        Of a file of the user's own that is name and content, wherever it lies.
        """
        known = DEFAULTS | self.settings
        known["dataset"] = short_name(known["dataset"])
        return tuple((name, known[name]) for name in (*DEFAULTS, *self.unknown))

    @property
    def unknown(self) -> list[str]:
        """Settings that decide its results in a way that this version does not know."""
        return sorted(self.settings.keys() - DEFAULTS.keys() - MACHINE)

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

    @property
    def finished(self) -> str | None:
        """When it had completed all AL rounds that it was to have; None if it has not."""
        return self.content.facts.get("finished")

    @property
    def progress(self) -> tuple[int, bool]:
        """How far it has got, to compare copies by."""
        return self.rounds, self.finished is not None

    def remark(self, what: str) -> tuple[Path, str]:
        """For a list of what is skipped, say: where, and why; in a results file there are other runs, too."""
        return self.where, what if self.has_folder else f"has {self.name}, which {what}"

    @property
    def has_folder(self) -> bool:
        """Or else it is one of many in a results file."""
        return self.where.is_dir()

    # --- the measures of tables and figures, for an AL round that is completed

    @cached_property
    def accuracy(self) -> pd.Series:
        """Percent, by AL round."""
        return pd.Series(
            {r.al_round: 100 * mean_of_last(r.accuracy) for r in self.content.al_rounds}, dtype=float
        )

    def percent_labelled(self, al_round: ALRound) -> float:
        """Of all samples; where their number is unknown, as if no client ran out of samples."""
        if self.content.samples is None:
            return float(al_round.al_round * dict(self.identity)["budget"])
        return 100 * al_round.labelled / self.content.samples

    @cached_property
    def queried(self) -> NDArray[np.int64]:
        """Counts of labels by AL round, client and class; of size 0 if only the sites know them."""
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
            if not agree(run, other):
                raise RunError(
                    f"{other.where} and {run.where} both have {run.name}, with different results; "
                    "leave one of them out"
                )
            if run.progress > other.progress:
                kept[run.identity] = run
    return kept


def agree(a: StoredRun, b: StoredRun) -> bool:
    """The same results as far as both got; times differ from one execution to the next."""
    common = min(a.rounds, b.rounds)
    rounds = zip(a.content.al_rounds, b.content.al_rounds, strict=False)
    return a.accuracy[:common].equals(b.accuracy[:common]) and all(x.queried == y.queried for x, y in rounds)
