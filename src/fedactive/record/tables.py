"""Read the files of a run; whatever is wrong with a file, the error is one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.errors import RunError, UserError

Skipped = list[tuple[Path, str]]  # what is left out and why, as in "PATH is not finished"

# What Python and Arrow raise when they read a file that is damaged or of another kind.
DAMAGE: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, LookupError, AttributeError, UserError)
DAMAGE += (ArithmeticError, RecursionError, MemoryError, NotImplementedError, pa.ArrowException)


class DamagedError(RunError):
    """A run or a file that cannot be read: where it is, and what is wrong, as in `Skipped`."""

    def __init__(self, where: Path, what: str) -> None:
        super().__init__(f"{where} {what}")
        self.where = where
        self.what = what


@contextmanager
def reading(folder: Path, name: str) -> Iterator[Path]:
    """Yield the path of a file, to be read in the block; every error in the block becomes a DamagedError."""
    file = folder / name
    try:
        if file.exists() and not file.is_file():
            raise ValueError("it is not a file")  # a pipe would never end
        yield file
    except DamagedError:
        raise
    except DAMAGE as error:
        raise DamagedError(folder, f"has an unreadable {name}: {explain(error)}") from None


def explain(error: BaseException) -> str:
    """Say in one short line why a file cannot be read."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, KeyError):
        text = f"it has no {error}"
    return " ".join((text or type(error).__name__).split())[:160]


def summarise(skipped: Skipped) -> str:
    """Name the first few in one sentence, for an error that says that there is no other run."""
    first = "; ".join(f"{path} {why}" for path, why in skipped[:5]) or "no folder was given"
    return first + (f"; and {len(skipped) - 5} more" if len(skipped) > 5 else "")


def read_table(file: Path, columns: Mapping[str, pa.DataType], optional: Collection[str] = ()) -> pa.Table:
    """Read these columns as these types; one that is `optional` is null if the file lacks it."""
    # ParquetFile takes less time than read_table, which prepares for many files.
    with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
        there = parquet.schema_arrow.names
        if absent := [name for name in columns if name not in there and name not in optional]:
            raise ValueError(f"it has no {', '.join(absent)}")
        table = parquet.read(columns=[name for name in columns if name in there], use_threads=False)
    for name in columns.keys() - set(there):
        table = table.append_column(name, pa.nulls(len(table)))
    return table.select(list(columns)).cast(pa.schema(columns))


def read_frame(folder: Path, name: str) -> pd.DataFrame:
    """Read a whole table of a run folder into pandas."""
    path = folder / f"{name}.parquet"
    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise RunError(f"{path} does not exist: is there a run in that folder?") from None
    except DAMAGE as error:
        again = "delete it, and the run's command writes it anew"
        raise RunError(f"{path} cannot be read: {explain(error)}; {again}") from None
