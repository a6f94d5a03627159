"""Read files of a run: what is wrong with one is said in one sentence, whatever it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.errors import RunError, UserError

Skipped = list[tuple[Path, str]]  # what is left out, and why: the predicate of a sentence

# All that Python and Arrow raise while they read a file that is damaged, or that is something else.
DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    NotImplementedError,
    pa.ArrowException,
    UserError,
)


class DamagedError(RunError):
    """A run or a file that cannot be read: `where` it is, and `what` is wrong, which follows that."""

    def __init__(self, where: Path, what: str) -> None:
        super().__init__(f"{where} {what}")
        self.where = where
        self.what = what


@contextmanager
def reading(folder: Path, name: str) -> Iterator[Path]:
    """Yield a file of the folder to read in the block, where everything that goes wrong is a DamagedError."""
    file = folder / name
    try:
        if file.exists() and not file.is_file():
            raise ValueError("it is no file")  # a pipe would never end
        yield file
    except DamagedError:
        raise
    except DAMAGE as error:
        raise DamagedError(folder, f"has an unreadable {name}: {explain(error)}") from None


def explain(error: BaseException) -> str:
    """Say why a file cannot be read, shortly and in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, KeyError):
        text = f"it has no {error}"
    return " ".join((text or type(error).__name__).split())[:160]


def summarise(skipped: Skipped) -> str:
    """Name the first few, where nothing else is left to report."""
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
    """Read a table of a run folder whole, as pandas has it."""
    path = folder / f"{name}.parquet"
    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise RunError(f"{path} does not exist: is there a run in that folder?") from None
    except DAMAGE as error:
        again = "delete it, and the run's command writes it anew"
        raise RunError(f"{path} cannot be read: {explain(error)}; {again}") from None
