"""What analyses read from one run, beyond what it has recorded: the diversity of its labels."""

from __future__ import annotations

import math

import pandas as pd

from fedactive.analysis.diversity import accuracy_matrix, count_matrix, global_emd, local_emd
from fedactive.record.stored import StoredRun


def local_emd_in(run: StoredRun, al_round: int) -> float:
    """Mean over clients of the EMD of their labels so far; NaN where only the sites know labels."""
    return float(local_emd(run.labelled(al_round))) if run.queried.size else math.nan


def global_emd_in(run: StoredRun, al_round: int) -> float:
    """EMD of all clients' labels so far; NaN where only the sites know labels."""
    return float(global_emd(run.labelled(al_round))) if run.queried.size else math.nan


def matrices_in(run: StoredRun, al_round: int) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Labels and class-wise accuracy by client, if local-only models were trained on that round's labels.

    They are trained at the next query, by strategies that use them.
    """
    this = run.al_rounds[al_round - 1]
    if not this.local_class_accuracy or not run.queried.size:
        return None
    counts = count_matrix(run.labelled(al_round))
    return counts, accuracy_matrix(this.local_class_accuracy, this.class_accuracy)
