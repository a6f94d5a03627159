"""Read finished runs into a few tables, and list what was skipped with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedactive.analysis.diversity import Counts
from fedactive.analysis.selection import check_settings, has_settings, wanted_settings
from fedactive.captions import setting_labels, strategy_label, varied_settings
from fedactive.errors import RunError
from fedactive.record.finding import find_runs
from fedactive.record.schema import METRICS
from fedactive.record.stored import DEFAULTS, StoredRun, drop_copies
from fedactive.record.tables import Skipped, summarise

UNFINISHED, TO_RESUME = "is not finished", "; start its command again to resume it"


@dataclass(frozen=True)
class Runs:
    """Finished runs; the column `run` is always the run's name."""

    configuration: pd.DataFrame  # one row per run: all settings, `label, setting`, where, hardware, dates
    # `run, setting, strategy, seed, counted, al_round, labels, labelled`, and a column per metric; NaN where
    # it is unknown
    curves: pd.DataFrame
    queried: dict[str, Counts]  # labels by AL round, client and class, of the runs where they are known
    seconds: pd.DataFrame  # by `run, al_round`, a column per phase
    skipped: Skipped  # what is not in the tables
    varied: tuple[str, ...] = ()  # the settings, besides strategy and seed, in which runs differ


def read_runs(paths: Sequence[str | Path], where: Sequence[str] = (), by: Sequence[str] = ()) -> Runs:
    """Read run folders, folders of run folders, and exported results.

    `where` keeps the runs with these settings, as in `dataset=svhn,cifar10`. Settings in `by` belong to the
    strategy's name in place of the setting's: `by=["algorithm"]` compares algorithms.
    """
    wanted = wanted_settings(where)
    check_settings(by)
    found, skipped = find_runs(paths)
    unfinished = [run for run in found if not run.finished]
    skipped += [run.remark(UNFINISHED + (TO_RESUME if run.has_folder else "")) for run in unfinished]
    kept, copies, conflicts = drop_copies(run for run in found if run.finished)
    skipped += copies + conflicts
    if not kept:
        raise RunError(f"there is no finished run to read: {summarise(skipped)}")
    runs = _by_name(run for run in kept.values() if has_settings(run, wanted))
    if not runs:
        raise RunError(f"none of the {len(kept)} finished runs has {' and '.join(where)}")
    configuration = _configuration(runs, by)
    return Runs(
        configuration=configuration,
        curves=_curves(runs, configuration),
        queried={name: run.queried for name, run in runs.items() if run.queried.size},
        seconds=_seconds(runs),
        skipped=skipped,
        varied=tuple(varied_settings([dict(run.identity) for run in runs.values()], by)),
    )


def _by_name(runs: Iterable[StoredRun]) -> dict[str, StoredRun]:
    """Number runs of the same name: folders may have been renamed."""
    named: dict[str, StoredRun] = {}
    count: Counter[str] = Counter()
    for run in runs:
        count[run.name] += 1
        named[run.name if count[run.name] == 1 else f"{run.name} ({count[run.name]})"] = run
    return named


def _seconds(runs: Mapping[str, StoredRun]) -> pd.DataFrame:
    found = {(name, r.al_round): r.seconds for name, run in runs.items() for r in run.al_rounds}
    index = pd.MultiIndex.from_tuples(found, names=["run", "al_round"])
    return pd.DataFrame(list(found.values()), index=index)


def _configuration(runs: Mapping[str, StoredRun], by: Sequence[str]) -> pd.DataFrame:
    settings = [DEFAULTS | run.settings for run in runs.values()]
    labels = setting_labels([dict(run.identity) for run in runs.values()], by)
    names = dict.fromkeys(name for given in settings for name in given)
    rows = [
        {
            "run": name,
            "label": strategy_label(given, by),
            "setting": setting,
            **{field: given.get(field) for field in names},
            "folder": str(run.where) if run.has_folder else None,
            "file": None if run.has_folder else str(run.where),
            "samples": run.samples,
            **run.facts,
            "seconds": sum(sum(r.seconds.values()) for r in run.al_rounds),
        }
        for (name, run), given, setting in zip(runs.items(), settings, labels, strict=True)
    ]
    return pd.DataFrame(rows)


def _curves(runs: Mapping[str, StoredRun], configuration: pd.DataFrame) -> pd.DataFrame:
    scale = {name: metric.scale for name, metric in METRICS.items()}
    rows = [
        (name, r.al_round, r.labelled, run.percent_labelled(r), *(k * r.measure(m) for m, k in scale.items()))
        for name, run in runs.items()
        for r in run.al_rounds
    ]
    curves = pd.DataFrame(rows, columns=["run", "al_round", "labels", "labelled", *METRICS])
    who = configuration[["run", "setting", "label", "seed"]].rename(columns={"label": "strategy"})
    # Is the budget a number of labels, and not percent?
    who["counted"] = [isinstance(budget, str) for budget in configuration["budget"]]
    return who.merge(curves, on="run", validate="one_to_many")
