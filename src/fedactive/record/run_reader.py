"""Read the folder of a run that is finished, stopped or still running.

Settings are not read into an Experiment, because a strategy may be a plugin that is not loaded here. Of the
labelled samples, 40,000 in a run of cifar10, only counts are kept.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedactive.files import load_toml
from fedactive.record.run_folder import FORMAT
from fedactive.record.schema import METRICS, SELECTIONS, TIMINGS, metrics_columns
from fedactive.record.soundness import (
    check_date,
    check_run,
    check_sequence,
    check_settings,
    in_range,
    require,
)
from fedactive.record.state import by_fl_round, mean_of_last
from fedactive.record.stored import DEFAULTS, ALRound, StoredRun
from fedactive.record.tables import DamagedError, read_table, reading

Counts = NDArray[np.int64]
MOST_COUNTS = 10**8  # AL rounds × clients × classes


def read_run(folder: Path) -> StoredRun:
    """Read the run in a folder; DamagedError says what is wrong with it."""
    name = os.fsencode(folder.resolve().name).decode(errors="replace")
    settings = _read_settings(folder)
    finished, ended_after = _read_end(folder)
    if finished is None and not (folder / "timings.parquet").exists():  # the last table to be written
        # The first AL round is not complete; earlier files may be missing, too.
        return StoredRun(folder, name, settings, [])
    facts = _read_starts(folder) | {"finished": finished}
    with reading(folder, "clients.parquet") as file:
        samples = pq.read_metadata(file).num_rows
    al_rounds, diverged = _read_metrics(folder, DEFAULTS | settings)
    if diverged:
        facts["diverged"] = diverged
    queried = _read_queried(folder, al_rounds, DEFAULTS | settings)
    seconds = _read_seconds(folder)
    al_rounds = [
        replace(r, queried=counts, seconds=seconds.get(r.al_round, {}))
        for r, counts in zip(al_rounds, queried, strict=False)
    ]
    return check_run(StoredRun(folder, name, settings, al_rounds, facts, samples, ended_after))


# ------------------------------------------------------------------------------------------ text files


def _read_settings(folder: Path) -> dict[str, Any]:
    with reading(folder, "experiment.toml") as file:
        text = file.read_text(encoding="utf-8")
        require(text.endswith("\n"), "its end is missing")
        return check_settings(load_toml(text))


def _read_end(folder: Path) -> tuple[str | None, int | None]:
    """Return when the run ended and after how many AL rounds; None, None if it has not."""
    if not (folder / "done.json").exists():
        return None, None
    with reading(folder, "done.json") as file:
        done = json.loads(file.read_text(encoding="utf-8"))
        if done["format"] != FORMAT:
            reads = f"this version of fedactive reads format {FORMAT}"
            raise DamagedError(folder, f"has format {str(done['format'])[:20]}; {reads}")
        ended_after = done["al_rounds"]
        require(type(ended_after) is int and ended_after > 0, "its al_rounds is not a positive whole number")
        return check_date(done["finished"]), ended_after


def _read_starts(folder: Path) -> dict[str, str | None]:
    """Return hardware, software and date; a run that was stopped may have been resumed elsewhere."""
    with reading(folder, "environment.json") as file:
        starts = json.loads(file.read_text(encoding="utf-8"))["starts"]
        facts = {
            "hardware": ", then ".join(dict.fromkeys(map(_hardware, starts))),
            "software": ", then ".join(dict.fromkeys(map(_software, starts))),
            "started": check_date(starts[0]["started"]),
        }
        for text in facts.values():
            text.encode()  # fails for half of a surrogate pair, which JSON allows but no file can hold
        return dict(facts)


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


# ---------------------------------------------------------------------------------------------- tables


def _read_metrics(folder: Path, settings: Mapping[str, Any]) -> tuple[list[ALRound], str]:
    """Return the AL rounds that are measured, and in which one training diverged; empty if in none."""
    with reading(folder, "metrics.parquet") as file:
        table = read_table(file, metrics_columns(), optional=METRICS.keys() - {"accuracy", "loss"})
        al_round, fl_round = _integers(table, "al_round", 0), _integers(table, "fl_round", 0, absent=0)
        labelled, client = (_integers(table, name, -1, absent=-1) for name in ("labelled", "client"))
        values = {name: np.asarray(table[name], dtype=np.float64) for name in METRICS}
        for name, metric in METRICS.items():  # of all FL rounds; a run keeps only means over the last ones
            in_range(name, values[name], metric.low, metric.high)
        of_classes = _class_accuracy(table)
        whole, local = (np.flatnonzero(pc.equal(table["model"], which)) for which in ("global", "local"))
        require(whole.size > 0, "it has no row of the global model")
        in_range("fl_round", fl_round[whole], 1, settings["fl_rounds"])
        in_range("client", client[local], 0, settings["clients"] - 1)
        rows, rows_of_local = _by_round(whole, al_round, fl_round), _by_round(local, al_round, client)
        check_sequence(list(rows))

        accuracy = values.pop("accuracy")
        al_rounds = [
            ALRound(
                al_round=r,
                labelled=int(labelled[own[-1]]),
                accuracy=by_fl_round(fl_round[own], accuracy[own]),
                class_accuracy=of_classes[own[-1]].tolist(),
                local_class_accuracy=of_classes[rows_of_local[r]].tolist() if r in rows_of_local else [],
                queried=[],
                seconds={},
                metrics={
                    name: mean_of_last(by_fl_round(fl_round[own], value[own]))
                    for name, value in values.items()
                },
            )
            for r, own in rows.items()
        ]
        lost = whole[~np.isnan(accuracy[whole]) & np.isnan(values["loss"][whole])]  # see `state.divergence`
        return al_rounds, f"in AL round {al_round[lost].min()}" if lost.size else ""


def _read_queried(
    folder: Path, al_rounds: list[ALRound], settings: Mapping[str, Any]
) -> list[list[list[int]]]:
    """Count labels by AL round, client and class; a round is empty where only the sites know labels.

    There may be fewer rounds than are measured, because a run may be writing its tables at this moment.
    """
    classes = len(al_rounds[0].class_accuracy)
    with reading(folder, "selections.parquet") as file:
        table = read_table(file, {name: SELECTIONS[name] for name in ("al_round", "client", "label")})
        label = _integers(table, "label", -1, classes - 1)
        if len(label) == 0 or label.min() < 0:
            return [[] for _ in al_rounds]
        al_round = _integers(table, "al_round", 1, len(al_rounds))
        client = _integers(table, "client", 0, settings["clients"] - 1)
        counts = query_counts(al_round, client, label, classes)
    # The last rounds in which no client had samples left to query.
    idle = [r for r in al_rounds[len(counts) :] if r.labelled == counts.sum()]
    nothing = np.zeros(counts.shape[1:], np.int64).tolist()
    return [*counts.tolist(), *[nothing] * len(idle)]


def query_counts(al_round: Counts, client: Counts, label: Counts, classes: int) -> Counts:
    """Count labels by AL round (the first is row 0), client and class; there is one entry per sample."""
    shape = (int(al_round.max()), int(client.max()) + 1, classes)
    require(math.prod(shape) <= MOST_COUNTS, f"{shape[1]} clients are too many")
    place = ((al_round - 1) * shape[1] + client) * shape[2] + label
    return np.bincount(place, minlength=math.prod(shape)).reshape(shape)


def _read_seconds(folder: Path) -> dict[int, dict[str, float]]:
    """Return seconds by AL round and phase."""
    with reading(folder, "timings.parquet") as file:
        table = read_table(file, TIMINGS)
        require(not any(column.null_count for column in table.columns), "values are missing")
        seconds: dict[int, dict[str, float]] = {}
        for r, phase, value in zip(*table.to_pydict().values(), strict=True):
            seconds.setdefault(r, {})[phase] = value
        return seconds


def read_selections(folder: Path) -> pa.Table:
    """Read which samples were queried; the columns are those of SELECTIONS."""
    with reading(folder, "selections.parquet") as file:
        table = read_table(file, SELECTIONS)
        for name in SELECTIONS:
            _integers(table, name, -1)
        return table


# ------------------------------------------------------------------------------------- parts of tables


def _integers(
    table: pa.Table, name: str, low: int, high: float = math.inf, absent: int | None = None
) -> Counts:
    """Return a column of whole numbers in that range; nulls become `absent`, or are refused if it is None."""
    column = table[name]
    if column.null_count:
        require(absent is not None, f"{name} is missing in places")
        column = pc.fill_null(column, absent)
    values = np.asarray(column, dtype=np.int64)
    in_range(name, values, low, high)
    return values


def _by_round(rows: Counts, al_round: Counts, within: Counts) -> dict[int, Counts]:
    """Return the row numbers of each AL round, ordered by `within`, which no two rows of a round share."""
    rows = rows[np.lexsort((within[rows], al_round[rows]))]
    again = (np.diff(al_round[rows]) == 0) & (np.diff(within[rows]) == 0)
    require(not again.any(), "there are two rows for one model of an AL round")
    rounds, starts = np.unique(al_round[rows], return_index=True)
    return dict(zip(rounds.tolist(), np.split(rows, starts[1:]), strict=False))


def _class_accuracy(table: pa.Table) -> NDArray[np.float64]:
    """Return a row for each model; NaN where a class has no test images."""
    column = table["class_accuracy"]
    flat = np.asarray(pc.list_flatten(column), dtype=np.float64)
    lengths = np.unique(pc.list_value_length(column))
    require(lengths.size == 1 and column.null_count == 0, "the number of classes differs")
    return flat.reshape(len(table), -1)
