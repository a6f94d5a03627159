"""Many runs in one Parquet file, small enough to commit: what tables and figures need, and no checkpoints.

One row per run and completed AL round: the run's settings (not its paths), hardware, software and dates, then
the fields of `ALRound`. What repeats from row to row takes no room in a Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.analysis.reading import Skipped, listed, predicate, readable
from fedactive.analysis.stored import DEFAULTS, ALRound, Content, StoredRun, longest, run_folder
from fedactive.errors import RunError
from fedactive.runs import write_atomically

FILE = "runs.parquet"
FORMAT = {b"fedactive": b"results 1"}
FACTS = ("hardware", "software", "started", "finished")
KINDS = {int: pa.int64(), float: pa.float64(), str: pa.string()}
SHARES = pa.list_(pa.float64())
SCHEMA = pa.schema(
    {
        "run": pa.string(),
        **{name: KINDS[type(default)] for name, default in DEFAULTS.items()},
        **dict.fromkeys(FACTS, pa.string()),
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


def stored_runs(folder: Path) -> list[StoredRun]:
    """All runs in a folder: itself if it is one, the run folders in it, and those in its results file."""
    return [*map(run_folder, run_folders_in(folder)), *read_results(folder)]


def run_folders_in(folder: Path) -> list[Path]:
    """The folder itself if it is one, or those in it."""
    if (folder / "experiment.toml").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/experiment.toml"))


def read_results(folder: Path) -> list[StoredRun]:
    """The runs in a folder's results file; none if it has no such file."""
    path = folder / FILE
    if not path.exists():
        return []
    with readable(folder, FILE):
        table = pq.read_table(path)
        if not FORMAT.items() <= (table.schema.metadata or {}).items():
            raise ValueError("it is no results file of this version of fedactive")
        # Names decide where a run's rows are: write_results keeps them together.
        names = table["run"].to_pylist()
        starts = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
        settings = table.select([name for name in DEFAULTS if name in table.column_names])
        settings_of_runs = settings.take(starts).to_pylist()
    ends = [*starts[1:], len(names)]
    return [
        StoredRun(path, names[start], given, _reader(table.slice(start, end - start)))
        for start, end, given in zip(starts, ends, settings_of_runs, strict=True)
    ]


def _reader(rows: pa.Table) -> Callable[[], Content]:
    def read() -> Content:
        content = rows.select([*FACTS, *ALRound.__dataclass_fields__]).to_pylist()
        facts = {name: content[0][name] for name in FACTS}
        al_rounds = [
            ALRound(**{k: v for k, v in row.items() if k not in FACTS} | {"seconds": dict(row["seconds"])})
            for row in content
        ]
        return Content(facts, al_rounds)

    return read


class Exported(NamedTuple):
    runs: int  # now in the file
    added: int
    replaced: int  # by one that got as far or further
    skipped: Skipped


def export(sources: Sequence[Path], folder: Path) -> Exported:
    """Add the runs in `sources` (run folders, folders of them, results folders) to the folder's results file.

    A run that is there already is replaced, unless the one in the file got further.
    """
    skipped: Skipped = []
    given = longest(_usable(sources, skipped))
    kept = {run.identity: run for run in read_results(folder)}
    before = len(kept)
    new = {i: run for i, run in given.items() if i not in kept or run.rounds >= kept[i].rounds}
    replaced = len(new.keys() & kept.keys())
    for identity in given.keys() - new.keys():
        skipped.append((given[identity].where, f"got less far than the same run in {folder / FILE}"))
    kept |= new
    if not kept:
        raise RunError(f"there is no run to export: {listed(skipped)}")
    write_results(kept.values(), folder)
    return Exported(len(kept), len(kept) - before, replaced, skipped)


def _usable(sources: Sequence[Path], skipped: Skipped) -> Iterable[StoredRun]:
    for source in sources:
        folders = run_folders_in(source)
        if not folders and not (source / FILE).exists():
            skipped.append((source, "holds neither run folders nor a results file"))
        for folder in folders:
            try:
                run = run_folder(folder)
                if run.rounds:
                    yield run
                else:
                    skipped.append((folder, "has not completed an AL round yet"))
            except RunError as error:
                skipped.append((folder, predicate(error, folder)))
        yield from read_results(source)


def write_results(runs: Iterable[StoredRun], folder: Path) -> None:
    rows = [row for run in sorted(runs, key=lambda run: run.name) for row in _rows(run)]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), buffer, compression="zstd", compression_level=9)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, buffer.getvalue())


def _rows(run: StoredRun) -> Iterable[dict[str, Any]]:
    common = {"run": run.name, **dict(run.identity), **run.content.facts}
    for al_round in run.content.al_rounds:
        yield common | vars(al_round) | {"seconds": list(al_round.seconds.items())}
