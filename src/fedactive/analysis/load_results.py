"""All runs of a folder as one table, for notebooks: `fedactive.load_results("results")`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedactive.analysis.diversity import global_emd_in, local_emd_in
from fedactive.files import expand_home
from fedactive.record.finding import runs_in
from fedactive.record.schema import METRICS
from fedactive.record.stored import DEFAULTS, StoredRun

FACTS = ("hardware", "software", "started", "finished")


def load_results(folder: str | Path) -> pd.DataFrame:
    """Read run folders, or exported results: one row per run and completed AL round.

    The columns are `run`, all settings, hardware, software and dates; then `al_round`, `labelled` (samples)
    and `labelled_percent`, `accuracy` (percent), the other metrics, `local_emd` and `global_emd` of all
    labels so far, and `seconds` of the round. What an older version did not record is missing (NaN or None);
    a setting that it did not know has its default.
    """
    return pd.DataFrame([row for run in runs_in(expand_home(folder)).runs for row in _rows(run)])


def _rows(run: StoredRun) -> list[dict[str, object]]:
    constant = {"run": run.name, **DEFAULTS, **run.settings, **{fact: run.facts.get(fact) for fact in FACTS}}
    return [
        constant
        | {"al_round": r.al_round, "labelled": r.labelled, "labelled_percent": run.percent_labelled(r)}
        | {metric: r.measure(metric) for metric in METRICS}
        | {
            "accuracy": run.accuracy_in(r.al_round),
            "local_emd": local_emd_in(run, r.al_round) if run.queried.size else np.nan,
            "global_emd": global_emd_in(run, r.al_round) if run.queried.size else np.nan,
            "seconds": sum(r.seconds.values()) if r.seconds else np.nan,
        }
        for r in run.al_rounds
    ]
