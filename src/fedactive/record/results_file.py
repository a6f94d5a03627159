"""Many runs in one Parquet file, small enough to commit: what tables and figures need, and no checkpoints.

One row per run and completed AL round: the run's settings (not its paths), hardware, software, dates and
number of samples, then the fields of `ALRound`. What repeats from row to row takes no room in a Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.files import write_output
from fedactive.record.reading import readable
from fedactive.record.stored import DEFAULTS, ALRound, Content, StoredRun

FILE = "runs.parquet"
FORMAT = {b"fedactive": b"results 1"}
FACTS = ("hardware", "software", "started", "finished")
FIELDS = [*ALRound.__dataclass_fields__]
KINDS = {int: pa.int64(), float: pa.float64(), str: pa.string()}
SHARES = pa.list_(pa.float64())
SCHEMA = pa.schema(
    {
        "run": pa.string(),
        **{name: KINDS[type(default)] for name, default in DEFAULTS.items()},
        **dict.fromkeys(FACTS, pa.string()),
        "samples": pa.int32(),
        "al_round": pa.int16(),
        "labelled": pa.int32(),
        "accuracy": SHARES,
        "class_accuracy": SHARES,
        "local_class_accuracy": pa.list_(SHARES),
        "queried": pa.list_(pa.list_(pa.int32())),
        "seconds": pa.map_(pa.string(), pa.float64()),
    },
    metadata=FORMAT,
)


def read_results(folder: Path) -> list[StoredRun]:
    """The runs in a folder's results file; none if it has no such file."""
    path = folder / FILE
    if not path.exists():
        return []
    with readable(folder, FILE):
        table = pq.read_table(path)
        if not FORMAT.items() <= (table.schema.metadata or {}).items():
            raise ValueError("it is no results file of this version of fedactive")
        table.select([*FACTS, *FIELDS])  # are all there
        if "samples" not in table.column_names:  # unknown to earlier versions
            table = table.append_column("samples", pa.nulls(len(table), pa.int32()))
        # write_results keeps a run's rows together.
        starts = [i for i, al_round in enumerate(table["al_round"].to_pylist()) if al_round == 1]
        if not starts:
            return []
        settings = [name for name in DEFAULTS if name in table.column_names]
        first = table.select(["run", *settings]).take(starts).to_pylist()
    ends = [*starts[1:], len(table)]
    return [
        StoredRun(path, given.pop("run"), given, _reader(table.slice(start, end - start)))
        for start, end, given in zip(starts, ends, first, strict=True)
    ]


def _reader(rows: pa.Table) -> Callable[[], Content]:
    def read() -> Content:
        (common,) = rows.slice(0, 1).select([*FACTS, "samples"]).to_pylist()
        samples = common.pop("samples")
        al_rounds = [
            ALRound(**row | {"seconds": dict(row["seconds"])}) for row in rows.select(FIELDS).to_pylist()
        ]
        return Content(common, al_rounds, samples)

    return read


def write_results(runs: Iterable[StoredRun], folder: Path) -> None:
    rows = [row for run in sorted(runs, key=lambda run: run.name) for row in _rows(run)]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), buffer, compression="zstd", compression_level=9)
    write_output(folder / FILE, buffer.getvalue())


def _rows(run: StoredRun) -> Iterable[dict[str, Any]]:
    content = run.content
    common = {"run": run.name, **dict(run.identity), **content.facts, "samples": content.samples}
    for al_round in content.al_rounds:
        yield common | vars(al_round) | {"seconds": list(al_round.seconds.items())}
