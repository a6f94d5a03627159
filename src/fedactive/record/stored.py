"""One run as it was read from a run folder or a results file: what analyses need of its AL rounds.

It may be unfinished: it has the AL rounds that are complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedactive.backbones.find import short_name as short_backbone
from fedactive.data.own_file import short_name
from fedactive.experiment import Experiment
from fedactive.federation import QUERY_PHASES
from fedactive.options import options_of
from fedactive.record.state import mean_of_last
from fedactive.record.tables import Skipped

DEFAULTS = {item.name: item.default for item in options_of(Experiment) if item.identity}
MACHINE = {item.name for item in options_of(Experiment) if not item.identity}  # decide no results

Identity = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class ALRound:
    """The results of a completed AL round."""

    al_round: int
    labelled: int  # by all clients, so far
    accuracy: list[float]  # of the global model after each FL round, as a share; NaN: not measured
    class_accuracy: list[float]  # of the global model at the end
    local_class_accuracy: list[list[float]]  # of each client's local-only model, if there were any
    queried: list[list[int]]  # labels bought in this round, by client and class; empty if sites keep them
    seconds: dict[str, float]  # by phase
    metrics: dict[str, float] = field(default_factory=dict)  # the other metrics, as `measure` has them

    def measure(self, metric: str) -> float:
        """Return the mean of a global model's metric over the last FL rounds; NaN if it is not known."""
        return mean_of_last(self.accuracy) if metric == "accuracy" else self.metrics.get(metric, math.nan)


@dataclass(frozen=True)
class StoredRun:
    where: Path  # the run folder, or the results file
    name: str
    settings: dict[str, Any]
    al_rounds: list[ALRound]
    facts: dict[str, str | None] = field(default_factory=dict)  # hardware, software, dates, if it `diverged`
    samples: int | None = None  # of all clients, if known
    ended_after: int | None = None  # AL rounds, if it is finished and that is known

    @cached_property
    def identity(self) -> Identity:
        """The settings that decide the results: two runs with the same ones are copies of one run.

        Settings newer than the run have their defaults. A dataset or a backbone in a file of the user's own
        counts by name and content, wherever it lies.
        """
        known = DEFAULTS | self.settings
        known["dataset"] = short_name(known["dataset"])
        known["backbone"] = short_backbone(known["backbone"])
        return tuple((name, known[name]) for name in (*DEFAULTS, *self.unknown))

    @property
    def unknown(self) -> list[str]:
        """The names of settings that this version does not know."""
        return sorted(self.settings.keys() - DEFAULTS.keys() - MACHINE)

    @property
    def unknown_settings(self) -> str:
        """Why a run with such settings cannot be used."""
        return f"has settings that this version of fedactive does not know: {', '.join(self.unknown)}"

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def rounds(self) -> int:
        """AL rounds completed."""
        return len(self.al_rounds)

    @property
    def finished(self) -> str | None:
        """When it completed its last AL round; None if it is not finished."""
        return self.facts.get("finished")

    @property
    def progress(self) -> tuple[int, bool]:
        """How far it has got; copies are compared by this."""
        return self.rounds, self.finished is not None

    def remark(self, what: str) -> tuple[Path, str]:
        """Make an entry of `Skipped` about this run; in a results file, it also needs the run's name."""
        return self.where, what if self.has_folder else f"has {self.name}, which {what}"

    @property
    def has_folder(self) -> bool:
        """Whether it was read from a run folder; otherwise it is one of many in a results file."""
        return self.where.is_dir()

    # --- measures of an AL round that is completed

    @cached_property
    def accuracy(self) -> pd.Series:
        """Accuracy in percent, by AL round."""
        return pd.Series({r.al_round: 100 * r.measure("accuracy") for r in self.al_rounds}, dtype=float)

    def accuracy_in(self, al_round: int) -> float:
        return float(self.accuracy[al_round])

    def percent_labelled(self, al_round: ALRound) -> float:
        """Return the share of labelled samples; if their number is unknown, as if none ran out."""
        if self.samples is None:
            budget = dict(self.identity)["budget"]
            return math.nan if isinstance(budget, str) else float(al_round.al_round * budget)
        return 100 * al_round.labelled / self.samples

    @cached_property
    def queried(self) -> NDArray[np.int64]:
        """Counts of labels by AL round, client and class; of size 0 if only the sites know them."""
        return np.array([r.queried for r in self.al_rounds], dtype=np.int64)

    def labelled(self, al_round: int) -> NDArray[np.int64]:
        """Count all labels so far by client and class."""
        counts: NDArray[np.int64] = self.queried[:al_round].sum(axis=0)
        return counts

    def query_seconds_in(self, al_round: int) -> float:
        """Return the seconds that the query of that round took, per client."""
        seconds = self.al_rounds[al_round - 1].seconds
        return sum(seconds.get(phase, 0.0) for phase in QUERY_PHASES) / int(dict(self.identity)["clients"])


class Distinct(NamedTuple):
    runs: dict[Identity, StoredRun]
    copies: Skipped  # of runs that are kept
    conflicts: Skipped  # copies that disagree: either may be wrong, so none of them is kept


def drop_copies(runs: Iterable[StoredRun]) -> Distinct:
    """Keep the copy of each run that got furthest."""
    copies: dict[Identity, list[StoredRun]] = {}
    for run in runs:
        copies.setdefault(run.identity, []).append(run)
    distinct = Distinct({}, [], [])
    for identity, same in copies.items():
        best = max(same, key=lambda run: run.progress)
        others = [run for run in same if run is not best]
        if all(agree(run, best) for run in others):
            distinct.runs[identity] = best
            for run in others:
                how = "copy" if run.rounds == best.rounds else "shorter copy"
                distinct.copies.append(run.remark(f"is a {how} of {best.where}"))
        else:
            for run in same:
                other = others[0] if run is best else best
                why = f"is the same run as {other.where}, with different results; leave one of them out"
                distinct.conflicts.append(run.remark(why))
    return distinct


def agree(a: StoredRun, b: StoredRun) -> bool:
    """Return whether two copies have the same results as far as both got. Their times may differ."""
    common = min(a.rounds, b.rounds)
    rounds = zip(a.al_rounds, b.al_rounds, strict=False)
    return a.accuracy[:common].equals(b.accuracy[:common]) and all(x.queried == y.queried for x, y in rounds)
