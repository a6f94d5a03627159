"""One finished run folder as the report needs it, read quickly and kept small.

500 runs of cifar10 label 20 million samples: they are counted while their folder is read, and not kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedactive.analysis.diversity import Counts
from fedactive.analysis.reading import read_columns, read_queried, read_settings, read_starts, readable
from fedactive.analysis.stored import DEFAULTS, MACHINE
from fedactive.data import DATASETS
from fedactive.errors import RunError
from fedactive.runs import FORMAT

METRICS = {"al_round": pa.int64(), "labelled": pa.int64(), "model": pa.string(), "accuracy": pa.float64()}
TIMINGS = {"phase": pa.string(), "seconds": pa.float64()}


@dataclass(frozen=True, eq=False)
class FinishedRun:
    folder: Path
    settings: dict[str, Any]
    facts: dict[str, Any]  # hardware, software, dates, seconds
    samples: int  # of all clients
    queried: Counts  # labels by AL round, client and class; empty if only the sites know them
    metrics: pa.Table  # `al_round, labelled, accuracy` of the global model, FL round by FL round
    timings: pa.Table  # `phase, seconds`, AL round by AL round

    @property
    def identity(self) -> str:
        """All that decides its results, settings that this version does not know included."""
        return repr({name: value for name, value in self.settings.items() if name not in MACHINE})

    def is_copy_of(self, other: FinishedRun) -> bool:
        """The same experiment with the same results; times differ from one execution to the next."""
        return (
            self.identity == other.identity
            and self.metrics.equals(other.metrics)
            and np.array_equal(self.queried, other.queried)
        )


def read_finished(folder: Path) -> FinishedRun:
    """The run in a folder, or a RunError that begins with the folder and says why it cannot be used."""
    if not (folder / "experiment.toml").exists():
        raise RunError(f"{folder} is no run folder: it has no experiment.toml")
    if not (folder / "done.json").exists():
        raise RunError(f"{folder} is not finished: it has no done.json; start its command again to resume it")
    with readable(folder, "done.json") as file:
        done = json.loads(file.read_text())
        if done["format"] != FORMAT:
            raise RunError(
                f"{folder} has format {done['format']}; this version of fedactive reads format {FORMAT}"
            )
        ended = {"finished": done["finished"], "seconds": float(done["seconds"])}
    facts = read_starts(folder) | ended
    settings = DEFAULTS | read_settings(folder)  # older runs, without newer settings, ran as the defaults say
    with readable(folder, "clients.parquet") as file:
        samples = pq.read_metadata(file).num_rows
    known = DATASETS.get(settings["dataset"])
    queried = read_queried(folder, len(known.classes) if known else 0)
    with readable(folder, "metrics.parquet") as file:
        metrics = read_columns(file, METRICS).filter(pc.field("model") == "global").drop_columns("model")
        accuracy = metrics["accuracy"]
        if not queried.size:
            accuracy = accuracy.fill_null(0.0)  # unknown, where no site has test images
        if not pc.all(pc.is_finite(accuracy), min_count=1, skip_nulls=False).as_py():
            raise ValueError("it has no accuracy, or one that is not a number")
    with readable(folder, "timings.parquet") as file:
        timings = read_columns(file, TIMINGS)
    return FinishedRun(folder, settings, facts, samples, queried, metrics, timings)
