"""A run folder as a stored run. It may be finished, stopped, or going on just now.

Settings are read as they stand, not as an Experiment: a strategy may be a plugin that is not loaded here. The
labelled samples, 40,000 in a run of cifar10, are counted while they are read, and not kept.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedactive.analysis.diversity import Counts, query_counts
from fedactive.errors import RunError
from fedactive.record.reading import readable
from fedactive.record.run_folder import FORMAT
from fedactive.record.state import by_fl_round
from fedactive.record.stored import ALRound, Content, StoredRun

METRICS = {
    **dict.fromkeys(("al_round", "fl_round", "labelled", "client"), pa.int64()),
    "model": pa.string(),
    **dict.fromkeys(("accuracy", "loss"), pa.float64()),
    "class_accuracy": pa.list_(pa.float64()),
}
SELECTIONS = dict.fromkeys(("al_round", "client", "label"), pa.int64())
TIMINGS = {"al_round": pa.int64(), "phase": pa.string(), "seconds": pa.float64()}
UNMEASURED = "it has no accuracy, or one that is not a number"


def run_folder(folder: Path) -> StoredRun:
    """The run in a folder, read when needed."""
    return StoredRun(folder, folder.resolve().name, _read_settings(folder), lambda: _content(folder))


def _content(folder: Path) -> Content:
    finished = _read_end(folder)
    if finished is None and not (folder / "timings.parquet").exists():  # the last table to be written
        return Content({}, [])  # the first AL round is going on; what comes before it may be missing, too
    facts = _read_starts(folder) | {"finished": finished}
    with readable(folder, "clients.parquet") as file:
        samples = pq.read_metadata(file).num_rows
    with readable(folder, "metrics.parquet") as file:
        metrics = _read_columns(file, METRICS)
        whole, local = (metrics.filter(pc.equal(metrics["model"], which)) for which in ("global", "local"))
        if not len(whole):
            raise ValueError(UNMEASURED)
        accuracy, labelled = np.asarray(whole["accuracy"]), np.asarray(whole["labelled"])
        diverged = np.asarray(whole["al_round"])[~np.isnan(accuracy) & np.isnan(whole["loss"])]
        class_accuracy, local_accuracy = _class_accuracy(whole), _class_accuracy(local)
        rounds, local_rounds = _rows_by_round(whole, "fl_round"), _rows_by_round(local, "client")
        fl_round = np.asarray(whole["fl_round"])
        curves = {r: by_fl_round(fl_round[rows], accuracy[rows]) for r, rows in rounds.items()}
    if diverged.size:  # see `state.divergence`
        facts["diverged"] = f"in AL round {diverged.min()}"
    counts = _read_queried(folder, class_accuracy.shape[1])
    # Rounds at the end in which nobody had samples left to ask for.
    idle = [r for r, rows in rounds.items() if r > len(counts) and labelled[rows[-1]] == counts.sum()]
    queried = [*counts.tolist(), *[np.zeros(counts.shape[1:], int).tolist() for _ in idle if counts.size]]
    # Unknown is the accuracy of the field alone, where no site may have test images; nor are labels known.
    if queried and not np.isfinite(accuracy).all():
        raise RunError(f"{folder} has an unreadable metrics.parquet: {UNMEASURED}")
    seconds = _read_seconds(folder)
    al_rounds = [
        ALRound(
            al_round=r,
            labelled=int(labelled[rows[-1]]),
            accuracy=curves[r],
            class_accuracy=class_accuracy[rows[-1]].tolist(),
            local_class_accuracy=local_accuracy[local_rounds[r]].tolist() if r in local_rounds else [],
            queried=queried[r - 1] if queried else [],
            seconds=seconds.get(r, {}),
        )
        for r, rows in rounds.items()
        if r <= len(queried) or not queried  # a run that is going on may be writing its tables just now
    ]
    return Content(facts, al_rounds, samples)


# -------------------------------------------------------------------------------------------- file by file


def _read_settings(folder: Path) -> dict[str, Any]:
    with readable(folder, "experiment.toml") as file:
        text = file.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            raise ValueError("its end is missing")
        settings = tomllib.loads(text)
        for name in ("dataset", "strategy", "seed"):  # no default can stand for these
            if name not in settings:
                raise KeyError(name)
        if not isinstance(settings["seed"], int):
            raise ValueError("its seed is not a whole number")
        for name, value in settings.items():
            if not isinstance(value, int | float | str):
                raise ValueError(f"its {name} is neither a number nor text")
        return settings


def _read_end(folder: Path) -> str | None:
    """When the run ended; None if it has not."""
    if not (folder / "done.json").exists():
        return None
    with readable(folder, "done.json") as file:
        done = json.loads(file.read_text())
        if done["format"] != FORMAT:
            raise RunError(
                f"{folder} has format {done['format']}; this version of fedactive reads format {FORMAT}"
            )
        return str(done["finished"])


def _read_starts(folder: Path) -> dict[str, str | None]:
    """Hardware, software and date; a run may have gone on elsewhere after it was stopped."""
    with readable(folder, "environment.json") as file:
        starts = json.loads(file.read_text())["starts"]
        return {
            "hardware": ", then ".join(dict.fromkeys(map(_hardware, starts))),
            "software": ", then ".join(dict.fromkeys(map(_software, starts))),
            "started": starts[0]["started"],
        }


def _hardware(start: Mapping[str, Any]) -> str:
    machine = f"{start['cpu']}, {start['cores']} cores"
    on_gpu = str(start["device"]).startswith("cuda")
    return f"{start['gpu']} ({machine})" if on_gpu else f"{machine}, {start['engine']} engine"


def _software(start: Mapping[str, Any]) -> str:
    revision = start["revision"]
    short = f" ({revision[:10]}{'+' * revision.endswith('+')})" if revision else ""
    return (
        f"fedactive {start['fedactive']}{short}, Python {start['python']}, torch {start['packages']['torch']}"
    )


def _read_queried(folder: Path, classes: int) -> Counts:
    """Labels by AL round, client and class, see `query_counts`; empty where only the sites know them."""
    with readable(folder, "selections.parquet") as file:
        table = _read_columns(file, SELECTIONS)
        if any(column.null_count for column in table.columns):
            raise ValueError("values are missing")
        al_round, client, label = (np.asarray(column) for column in table.columns)
        if len(label) == 0 or label.min() < 0:
            return np.zeros((0, 0, 0), np.int64)
        return query_counts(al_round, client, label, classes)


def _read_seconds(folder: Path) -> dict[int, dict[str, float]]:
    """By AL round and phase."""
    with readable(folder, "timings.parquet") as file:
        seconds: dict[int, dict[str, float]] = {}
        for r, phase, value in zip(*_read_columns(file, TIMINGS).to_pydict().values(), strict=True):
            seconds.setdefault(r, {})[phase] = value
        return seconds


# ----------------------------------------------------------------------------------------- parts of tables


def _read_columns(file: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """These columns as these types, whatever version wrote them."""
    names = list(columns)
    with pq.ParquetFile(file) as parquet:  # read_table takes longer: it prepares for many files
        table = parquet.read(columns=names, use_threads=False)
    return table.select(names).cast(pa.schema(columns))


def _rows_by_round(table: pa.Table, within: str) -> dict[int, NDArray[np.int64]]:
    """The row numbers of each AL round, in the order of another column."""
    al_round = np.asarray(table["al_round"])
    order = np.lexsort((np.asarray(table[within]), al_round))
    rounds, starts = np.unique(al_round[order], return_index=True)
    return dict(zip(rounds.tolist(), np.split(order, starts[1:]), strict=False))


def _class_accuracy(table: pa.Table) -> NDArray[np.float64]:
    """One row per model; NaN where a class has no test images."""
    flat = np.asarray(pc.list_flatten(table["class_accuracy"]), dtype=np.float64)
    return flat.reshape(len(table), -1) if len(table) else flat.reshape(0, 0)
