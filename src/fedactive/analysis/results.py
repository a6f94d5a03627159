"""Many finished runs as a few tidy tables; what cannot be used is named with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedactive.analysis.diversity import Counts
from fedactive.analysis.finished import FinishedRun, read_finished
from fedactive.analysis.reading import Skipped, listed, predicate
from fedactive.analysis.stored import DEFAULTS, MACHINE
from fedactive.errors import RunError
from fedactive.experiment import strategy_label
from fedactive.state import LAST_FL_ROUNDS

THREADS = 2  # more are no faster, as half of the work is Python's
NOT_A_SETTING = {"strategy", "selector", "strategy_options", "seed"} | MACHINE


@dataclass(frozen=True)
class Runs:
    """Finished runs; `run` is everywhere the name of the run's folder."""

    configuration: pd.DataFrame  # one row per run: all settings, `label, setting`, folder, hardware, dates
    curves: pd.DataFrame  # `run, setting, strategy, seed, al_round, labels, labelled, accuracy`; NaN: unknown
    queried: dict[str, Counts]  # labels by AL round, client and class, of the runs where they are known
    seconds: pd.DataFrame  # by run and phase
    skipped: Skipped  # folders that are not in the tables


def read_runs(paths: Sequence[Path]) -> Runs:
    """Read run folders, or folders of run folders."""
    skipped: Skipped = []
    known: dict[str, FinishedRun] = {}  # by name and by identity
    found = list(_find(paths, skipped))
    with ThreadPoolExecutor(THREADS) as pool:
        for folder, outcome in zip(found, pool.map(_read_or_reason, found), strict=True):
            if isinstance(outcome, str):
                skipped.append((folder, outcome))
            elif original := _original(outcome, known):
                skipped.append((folder, f"is a copy of {original.folder}"))
            else:
                known[folder.name] = known[outcome.identity] = outcome
    runs = list(dict.fromkeys(known.values()))
    if not runs:
        raise RunError(f"there is no finished run to read: {listed(skipped)}")
    configuration = _configuration(runs)
    return Runs(
        configuration=configuration,
        curves=_curves(_joined(runs, [run.metrics for run in runs]), configuration),
        queried={run.folder.name: run.queried for run in runs if run.queried.size},
        seconds=_joined(runs, [run.timings for run in runs]).pivot_table(
            index="run", columns="phase", values="seconds", aggfunc="sum", observed=True, sort=False
        ),
        skipped=skipped,
    )


# ------------------------------------------------------------------------------------------ which folders


def _find(paths: Sequence[Path], skipped: Skipped) -> Iterator[Path]:
    """Folders that may be runs: each path itself, or those in it."""
    seen = set()
    for path in paths:
        try:
            inside = [path] if (path / "experiment.toml").exists() else sorted(path.iterdir())
        except OSError as error:
            skipped.append((path, f"cannot be opened: {error.strerror}"))
            continue
        # `logs` and hidden folders such as .first-rounds lie beside runs.
        inside = [p for p in inside if p == path or (p.is_dir() and p.name != "logs" and p.name[0] != ".")]
        if not inside:
            skipped.append((path, "is no run folder (it has no experiment.toml) and holds none"))
        for folder in inside:
            if (real := folder.resolve()) not in seen:
                seen.add(real)
                yield folder


def _read_or_reason(folder: Path) -> FinishedRun | str:
    try:
        return read_finished(folder)
    except RunError as error:
        return predicate(error, folder)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"


def _original(run: FinishedRun, known: dict[str, FinishedRun]) -> FinishedRun | None:
    """The same run read before. Two of one name or configuration must agree, or one of them is wrong."""
    others = [known[key] for key in (run.folder.name, run.identity) if key in known]
    for other in others:
        if not run.is_copy_of(other):
            raise RunError(
                f"{other.folder} and {run.folder} are one run by name or configuration, but differ in "
                "their content; leave one of them out"
            )
    return others[0] if others else None


# ------------------------------------------------------------------------------------------ all together


def _configuration(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    names = dict.fromkeys([*DEFAULTS, *(name for run in runs for name in run.settings)])
    settings = _setting_labels([run.settings for run in runs])
    rows = [
        {
            "run": run.folder.name,
            "label": strategy_label(run.settings),
            "setting": setting,
            **{name: run.settings.get(name) for name in names},
            "folder": str(run.folder),
            "samples": run.samples,
            **run.facts,
        }
        for run, setting in zip(runs, settings, strict=True)
    ]
    return pd.DataFrame(rows)


def _setting_labels(experiments: Sequence[Mapping[str, Any]]) -> list[str]:
    """What sets each experiment apart from the others besides strategy and seed: `alpha 0.1, rho 5`."""
    names = dict.fromkeys(name for experiment in experiments for name in experiment)
    varied = [
        name
        for name in names
        if name not in NOT_A_SETTING and len({str(e.get(name)) for e in experiments}) > 1
    ]
    return [", ".join(f"{name} {e.get(name)}" for name in varied) for e in experiments]


def _joined(runs: Sequence[FinishedRun], tables: Sequence[pa.Table]) -> pd.DataFrame:
    """One table of all runs', with a column `run`."""
    frame: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    codes = np.repeat(np.arange(len(runs)), [len(table) for table in tables])
    frame["run"] = pd.Categorical.from_codes(codes, pd.Index([run.folder.name for run in runs]))
    return frame


def _curves(metrics: pd.DataFrame, configuration: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by AL round is the mean of the last five FL rounds, as in `state.round_accuracy`."""
    rounds = ["run", "al_round"]
    last = metrics.groupby(rounds, observed=True).tail(LAST_FL_ROUNDS)
    curves = last.groupby(rounds, observed=True, as_index=False).agg(
        labels=("labelled", "first"), accuracy=("accuracy", "mean")
    )
    curves = curves.astype({"run": "object"})  # it was a category, to be small
    samples = configuration.set_index("run")["samples"]
    curves.insert(3, "labelled", 100 * curves["labels"] / curves["run"].map(samples))
    curves["accuracy"] *= 100
    who = configuration[["run", "setting", "label", "seed"]].rename(columns={"label": "strategy"})
    return who.merge(curves, on="run", validate="one_to_many")
