"""What all readers of run folders share: errors in one sentence, and the files that every analysis needs.

Settings are read as they stand, not as an Experiment: a strategy may be a plugin that is not loaded here.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedactive.analysis.diversity import Counts, query_counts
from fedactive.errors import RunError

Skipped = list[tuple[Path, str]]  # what is left out, and why: the predicate of a sentence


@contextmanager
def readable(folder: Path, name: str) -> Iterator[Path]:
    """The file to read in the block; what goes wrong there is told in one sentence."""
    try:
        yield folder / name
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{folder} has an unreadable {name}: {reason(error)}") from None


def reason(error: Exception) -> str:
    """Why a file cannot be read, short and on one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, KeyError):
        text = f"it has no {error}"
    return " ".join((text or type(error).__name__).split())[:160]


def predicate(error: RunError, folder: Path) -> str:
    """The error without the folder that it begins with."""
    return str(error).removeprefix(f"{folder} ")


def listed(skipped: Skipped) -> str:
    """The first few, where nothing else is left to report."""
    first = "; ".join(f"{path} {why}" for path, why in skipped[:5]) or "no folder was given"
    return first + (f"; and {len(skipped) - 5} more" if len(skipped) > 5 else "")


def read_settings(folder: Path) -> dict[str, Any]:
    with readable(folder, "experiment.toml") as file:
        text = file.read_text()
        if not text.endswith("\n"):
            raise ValueError("its end is missing")
        settings = tomllib.loads(text)
        for name in ("dataset", "strategy", "seed"):  # no default can stand for these
            if name not in settings:
                raise KeyError(name)
        if not isinstance(settings["seed"], int):
            raise ValueError("its seed is not a whole number")
        return settings


def read_starts(folder: Path) -> dict[str, Any]:
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


def read_columns(file: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """These columns as these types, whatever version wrote them."""
    names = list(columns)
    with pq.ParquetFile(file) as parquet:  # read_table takes longer: it prepares for many files
        table = parquet.read(columns=names, use_threads=False)
    return table.select(names).cast(pa.schema(columns))


def read_queried(folder: Path, classes: int) -> Counts:
    """Labels by AL round, client and class, see `query_counts`; empty where only the sites know them."""
    with readable(folder, "selections.parquet") as file:
        columns = dict.fromkeys(("al_round", "client", "label"), pa.int64())
        table = read_columns(file, columns)
        if any(column.null_count for column in table.columns):
            raise ValueError("values are missing")
        al_round, client, label = (np.asarray(column) for column in table.columns)
        if len(label) == 0 or label.min() < 0:
            return np.zeros((0, 0, 0), np.int64)
        return query_counts(al_round, client, label, classes)
