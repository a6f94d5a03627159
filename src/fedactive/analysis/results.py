"""Many run folders as a few tidy tables, read once and quickly; what cannot be used is named with its reason.

Configurations are read as they stand, not as Experiments: a strategy may be a plugin that is not loaded here.
Parquet files are decoded in threads, only the columns an analysis needs, and narrowed at once: 500 runs of
cifar10 label 20 million samples.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedactive.analysis.curves import setting_labels
from fedactive.analysis.stored import DEFAULTS, describe_starts, reason
from fedactive.errors import RunError
from fedactive.experiment import Experiment, strategy_label
from fedactive.runs import FORMAT
from fedactive.settings import settings_of
from fedactive.state import LAST_FL_ROUNDS

MACHINE = {item.name for item in settings_of(Experiment) if not item.identity}
THREADS = 2  # more are no faster, as half of the work is Python's, and take more memory
COLUMNS = {
    "metrics": {
        "al_round": pa.int16(),
        "fl_round": pa.int32(),
        "labelled": pa.int32(),
        "model": pa.string(),
        "client": pa.int16(),
        "accuracy": pa.float64(),
        "loss": pa.float64(),
    },
    "selections": {"al_round": pa.int16(), "client": pa.int16(), "sample": pa.int32(), "label": pa.int16()},
    "timings": {"al_round": pa.int16(), "phase": pa.string(), "seconds": pa.float64()},
}


@dataclass(frozen=True)
class Runs:
    """Finished runs; every table has a column `run`, the name of the run's folder."""

    configuration: pd.DataFrame  # one row per run: all settings, `label, setting`, folder, hardware, dates
    curves: pd.DataFrame  # `setting, strategy, seed, al_round, labelled, accuracy`; NaN: unknown
    metrics: pd.DataFrame  # the columns of COLUMNS, rows in the order of the runs' own files
    selections: pd.DataFrame
    timings: pd.DataFrame
    skipped: list[tuple[Path, str]]  # folders that are not in the tables, and why


class UnusableError(Exception):
    """Why a folder is skipped, as the sentence's predicate."""


@dataclass(frozen=True, eq=False)
class Folder:
    """One run folder as read."""

    path: Path
    experiment: dict[str, Any]
    facts: dict[str, Any]  # hardware and dates
    samples: int  # of all clients
    labels: int  # how many of them were labelled
    tables: dict[str, pa.Table]
    digest: bytes  # of metrics and selections; times differ from one execution to the next

    @property
    def identity(self) -> str:
        return repr({name: value for name, value in self.experiment.items() if name not in MACHINE})


def read_runs(paths: Sequence[Path]) -> Runs:
    """Read run folders, or folders of run folders."""
    skipped: list[tuple[Path, str]] = []
    folders: dict[str, Folder] = {}  # by name and by identity
    # Joining arrays takes memory for both, a bytearray grows in place.
    selections = {name: bytearray() for name in COLUMNS["selections"]}
    found = list(_find(paths, skipped))
    with ThreadPoolExecutor(THREADS) as pool:
        for path, outcome in zip(found, pool.map(_read_or_reason, found), strict=True):
            if isinstance(outcome, str):
                skipped.append((path, outcome))
            elif copy_of := _known(outcome, folders):
                skipped.append((path, f"is a copy of {copy_of.path}"))
            else:
                folders[path.name] = folders[outcome.identity] = outcome
                chosen = outcome.tables.pop("selections")
                for name, column in zip(chosen.column_names, chosen.columns, strict=True):
                    selections[name].extend(column.to_numpy().data)
    kept = list(dict.fromkeys(folders.values()))
    if not kept:
        reasons = "; ".join(f"{path} {reason}" for path, reason in skipped[:5]) or "no folder was given"
        more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        raise RunError(f"there is no finished run to read: {reasons}{more}")
    configuration, metrics = _configuration(kept), _joined("metrics", kept)
    return Runs(
        configuration=configuration,
        curves=_curves(metrics, configuration),
        metrics=metrics,
        selections=_selections(selections, kept),
        timings=_joined("timings", kept),
        skipped=skipped,
    )


# ------------------------------------------------------------------------------------------- one folder


def _find(paths: Sequence[Path], skipped: list[tuple[Path, str]]) -> Iterator[Path]:
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


def _read_or_reason(path: Path) -> Folder | str:
    try:
        return _read(path)
    except UnusableError as why:
        return str(why)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"


def _read(path: Path) -> Folder:
    if not (path / "experiment.toml").exists():
        raise UnusableError("is no run folder: it has no experiment.toml")
    if not (path / "done.json").exists():
        raise UnusableError("is not finished: it has no done.json; start its command again to resume it")
    name = "done.json"
    try:
        done = json.loads((path / name).read_text())
        if done["format"] != FORMAT:
            raise UnusableError(
                f"has format {done['format']}; this version of fedactive reads format {FORMAT}"
            )
        name = "environment.json"
        facts = describe_starts(json.loads((path / name).read_text())["starts"])
        facts |= {"finished": done["finished"], "seconds": float(done["seconds"])}
        name = "experiment.toml"
        text = (path / name).read_text()
        if not text.endswith("\n"):
            raise ValueError("its end is missing")
        experiment = tomllib.loads(text)
        if not isinstance(experiment["seed"], int):
            raise ValueError("its seed is not a whole number")
        # Older runs do not know newer settings: they ran as the defaults say.
        experiment = DEFAULTS | {key: experiment[key] for key in ("dataset", "strategy", "seed")} | experiment
        name = "clients.parquet"
        samples = pq.read_metadata(path / name).num_rows
        tables = {}
        for table, columns in COLUMNS.items():
            name = f"{table}.parquet"
            with pq.ParquetFile(path / name) as file:
                tables[table] = file.read(columns=list(columns), use_threads=False)
            tables[table] = tables[table].select(list(columns)).cast(pa.schema(columns))
        if any(column.null_count for column in tables["selections"].columns):
            raise ValueError("values are missing")
        name = "metrics.parquet"
        accuracy = tables["metrics"].filter(pc.field("model") == "global")["accuracy"]
        if _between_sites(tables["selections"]):
            accuracy = accuracy.fill_null(0.0)  # unknown, where no site has test images
        if not pc.all(pc.is_finite(accuracy), min_count=1, skip_nulls=False).as_py():
            raise ValueError("it has no accuracy, or one that is not a number")
        digest = _digest(tables)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnusableError(f"has an unreadable {name}: {reason(error)}") from None
    return Folder(path, experiment, facts, samples, len(tables["selections"]), tables, digest)


def _between_sites(selections: pa.Table) -> bool:
    """Sites keep to themselves which samples they labelled: each is -1."""
    return (pc.min(selections["sample"]).as_py() or 0) < 0


def _digest(tables: dict[str, pa.Table]) -> bytes:
    sink = pa.BufferOutputStream()
    for column in (*tables["metrics"].columns, *tables["selections"].columns):
        if column.null_count:
            column = pc.fill_null(column, -1)  # what lies in memory below a null is arbitrary
        table = pa.table({"": column}).combine_chunks()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    return hashlib.sha256(sink.getvalue()).digest()


# ------------------------------------------------------------------------------------------ all together


def _known(folder: Folder, folders: dict[str, Folder]) -> Folder | None:
    """The same run read before. Two of one name or configuration must agree, or one of them is wrong."""
    others = [folders[key] for key in (folder.path.name, folder.identity) if key in folders]
    for other in others:
        if (other.identity, other.digest) != (folder.identity, folder.digest):
            raise RunError(
                f"{other.path} and {folder.path} are one run by name or configuration, but differ in "
                "their content; leave one of them out"
            )
    return others[0] if others else None


def _configuration(folders: Sequence[Folder]) -> pd.DataFrame:
    names = dict.fromkeys([*DEFAULTS, *(name for folder in folders for name in folder.experiment)])
    settings = setting_labels([folder.experiment for folder in folders])
    rows = [
        {
            "run": folder.path.name,
            "label": strategy_label(folder.experiment),
            "setting": setting,
            **{name: folder.experiment.get(name) for name in names},
            "folder": str(folder.path),
            "samples": folder.samples,
            **folder.facts,
        }
        for folder, setting in zip(folders, settings, strict=True)
    ]
    return pd.DataFrame(rows)


def _runs(folders: Sequence[Folder], rows: Sequence[int]) -> pd.Series:
    """The column `run` of a table with so many rows of each folder."""
    codes = np.repeat(np.arange(len(folders), dtype=np.int16), rows)
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index([folder.path.name for folder in folders])))


def _joined(name: str, folders: Sequence[Folder]) -> pd.DataFrame:
    tables = [folder.tables[name] for folder in folders]
    frame: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    frame.insert(0, "run", _runs(folders, [len(table) for table in tables]))
    return frame


def _selections(columns: dict[str, bytearray], folders: Sequence[Folder]) -> pd.DataFrame:
    run = _runs(folders, [folder.labels for folder in folders])
    kinds = {name: kind.to_pandas_dtype() for name, kind in COLUMNS["selections"].items()}
    arrays = {name: np.frombuffer(columns[name], kinds[name]) for name in columns}
    return pd.DataFrame({"run": run, **arrays}, copy=False)


def _curves(metrics: pd.DataFrame, configuration: pd.DataFrame) -> pd.DataFrame:
    """`learning_curves` of all runs at once."""
    one_round = ["run", "al_round"]
    table = metrics.loc[metrics["model"] == "global", [*one_round, "labelled", "accuracy"]]
    last = table.groupby(one_round, observed=True).tail(LAST_FL_ROUNDS)
    curves = last.groupby(one_round, observed=True, as_index=False).agg(
        {"labelled": "first", "accuracy": "mean"}
    )
    curves = curves.astype({"run": "object", "al_round": "int64"})
    samples = configuration.set_index("run")["samples"]
    curves["labelled"] = 100 * curves["labelled"] / curves["run"].map(samples)
    curves["accuracy"] *= 100
    who = configuration[["run", "setting", "label", "seed"]].rename(columns={"label": "strategy"})
    return who.merge(curves, on="run", validate="one_to_many")
