"""The results file: many runs in one Parquet file that is small enough to commit.

It has what tables and figures need, and no checkpoints: a row for each run and completed AL round with the
run's settings (not its paths), hardware, software, dates and number of samples, then the fields of `ALRound`.
Values that are repeated from row to row take no room in a Parquet file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.files import write_output
from fedactive.record.schema import FACTS, METRICS, newer_columns, results_columns
from fedactive.record.soundness import check_date, check_run, check_settings, require
from fedactive.record.stored import DEFAULTS, ALRound, StoredRun
from fedactive.record.tables import DAMAGE, DamagedError, Skipped, explain, read_table, reading

FILE = "runs.parquet"
KIND = ".parquet"
FORMAT = {b"fedactive": b"results 1"}

Row = dict[str, Any]


class Found(NamedTuple):
    runs: list[StoredRun]
    skipped: Skipped


def results_file(place: Path) -> Path:
    """Return the results file of a folder; or the place itself, if that is a file by its name."""
    return place if place.suffix == KIND else place / FILE


def read_results(place: Path) -> Found:
    """Read the sound runs of a results file or of a folder's, and say what is wrong with the others.

    Without such a file there are none. DamagedError if the file cannot be read at all.
    """
    path, found = results_file(place), Found([], [])
    if not path.exists():
        return found
    with reading(path.parent, path.name):
        schema = pq.read_schema(path)
        if not FORMAT.items() <= (schema.metadata or {}).items():
            raise ValueError("it is not a results file of this version of fedactive")
        # Settings are the columns between the name and the facts; they may be those of another version.
        settings = schema.names[1 : schema.names.index(FACTS[0])]
        columns = results_columns({}) | {name: schema.field(name).type for name in settings}
        rows = read_table(path, columns, newer_columns()).to_pylist()
    for own in _split(rows):
        try:
            found.runs.append(_read(path, settings, own))
        except DamagedError as error:
            found.skipped.append((error.where, error.what))
    return found


def _split(rows: list[Row]) -> list[list[Row]]:
    """Return the rows of each run, which are next to each other. Two runs may have the same name."""
    runs: list[list[Row]] = []
    for row in rows:
        if runs and row["run"] == runs[-1][0]["run"] and row["al_round"] != 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _read(path: Path, settings: list[str], rows: list[Row]) -> StoredRun:
    first = rows[0]
    try:
        require(all(row[name] == first[name] for row in rows for name in settings), "its settings differ")
        for date in filter(None, (first["started"], first["finished"])):
            check_date(date)
        run = StoredRun(
            where=path,
            name=str(first["run"]),
            settings=check_settings({name: _setting(name, first[name]) for name in settings}),
            al_rounds=[_al_round(row) for row in rows],
            facts={name: first[name] for name in FACTS},
            samples=first["samples"],
            ended_after=first["ended_after"],
        )
    except DAMAGE as error:
        raise DamagedError(path, f"has {first['run']}, which cannot be read: {explain(error)}") from None
    return check_run(run)


def _setting(name: str, value: Any) -> Any:
    """Return a setting as a run has it: a number that was written as text, beside budgets of 10/client."""
    if isinstance(value, str) and isinstance(DEFAULTS.get(name), float):
        with suppress(ValueError):
            return float(value)
    return value


def _al_round(row: Row) -> ALRound:
    return ALRound(
        al_round=row["al_round"],
        labelled=row["labelled"],
        accuracy=_floats(row["accuracy"]),
        class_accuracy=_floats(row["class_accuracy"]),
        local_class_accuracy=[_floats(own) for own in row["local_class_accuracy"]],
        queried=row["queried"],
        seconds=dict(row["seconds"]),
        metrics={name: _floats([row[name]])[0] for name in METRICS if name != "accuracy"},
    )


def _floats(values: Iterable[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def write_results(runs: Iterable[StoredRun], place: Path) -> None:
    rows = [row for run in sorted(runs, key=lambda run: run.name) for row in _rows(run)]
    # A budget may be text: 10/client. Where it is, those in percent are written as text, too.
    texts = {name for name in DEFAULTS if any(isinstance(row[name], str) for row in rows)}
    for row in rows:
        row.update({name: str(row[name]) for name in texts})
    defaults = {name: str(value) if name in texts else value for name, value in DEFAULTS.items()}
    schema = pa.schema(results_columns(defaults), metadata=FORMAT)
    buffer = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, buffer, compression="zstd", compression_level=9, write_page_checksum=True)
    write_output(results_file(place), buffer.getvalue())


def _rows(run: StoredRun) -> Iterable[Row]:
    common = {"run": run.name, **dict(run.identity), **run.facts}
    common |= {"samples": run.samples, "ended_after": run.ended_after}
    for r in run.al_rounds:
        yield common | r.metrics | vars(r) | {"seconds": list(r.seconds.items())}
