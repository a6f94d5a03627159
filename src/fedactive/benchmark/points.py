"""What runs say to a suite: one number for each method, setting, seed and budget."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedactive.analysis.significance import aubc
from fedactive.benchmark.suite import Suite
from fedactive.record.archive import Archive
from fedactive.record.schema import METRICS

NAMES = ["setting", "method", "seed", "al_round"]


def read_points(suite: Suite, archive: Archive, **overrides: Any) -> pd.DataFrame:
    """Make a row for each run and AL round up to the suite's last.

    The columns are `setting, method, seed, al_round, labelled` (percent, or labels of all clients where the
    budget counts them), `unit`, `complete` (has the run got to the suite's end?), `seconds` of the query for
    one client, `hardware`, and a column per metric of the suite, scaled as people read it.
    """
    rows = []
    for setting, place in suite.places().items():
        for entry in suite.entries:
            experiment = entry.experiment(place | overrides)
            counted = isinstance(experiment.budget, str)
            for run in archive.find(experiment):
                if run.seed not in suite.seeds:
                    continue
                for r in run.al_rounds[: experiment.rounds]:
                    labelled = float(r.labelled) if counted else r.al_round * experiment.percent
                    row = {
                        "setting": setting,
                        "method": entry.label,
                        "seed": run.seed,
                        "al_round": r.al_round,
                    }
                    row |= {"labelled": labelled, "unit": "labels" if counted else "%"}
                    row |= {"complete": run.rounds >= experiment.rounds}
                    row |= {
                        "seconds": run.query_seconds_in(r.al_round),
                        "hardware": run.facts.get("hardware"),
                    }
                    rows.append(row | {m: METRICS[m].scale * r.measure(m) for m in suite.metrics})
    columns = [*NAMES, "labelled", "unit", "complete", "seconds", "hardware", *suite.metrics]
    return pd.DataFrame(rows, columns=columns)


def areas(points: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Compute each complete run's mean accuracy on the way: `setting, method, seed, area`."""
    whole = points[points["complete"].astype(bool)].dropna(subset=metric)
    if whole.empty:
        return pd.DataFrame(columns=["setting", "method", "seed", "area"])
    curves = whole.assign(accuracy=whole[metric]).rename(columns={"method": "strategy"})
    return aubc(curves).rename(columns={"strategy": "method", "aubc": "area"}).drop(columns="rounds")


def mean_scores(points: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Return means over seeds: a row for each setting and budget after AL round 1, a column per method.

    In AL round 1 the labels are random for all, so there is no query to judge yet.
    """
    later = points[points["al_round"] > 1].dropna(subset=metric)
    same = of_all_methods(later, ["setting", "al_round", "seed"])
    return same.pivot_table(index=["setting", "al_round"], columns="method", values=metric)


def of_all_methods(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Keep what all methods have, as a seed of a setting: means over other seeds would differ by these."""
    methods = rows.groupby(keys)["method"].transform("nunique")
    return rows[methods == rows["method"].nunique()]
