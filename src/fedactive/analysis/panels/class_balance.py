"""Class balance: charts of EMD against the share labelled, and heat maps of the labels at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from fedactive.analysis.charts import heat_map
from fedactive.analysis.diversity import LABELLED, QUERY, Counts, emd_by_round
from fedactive.analysis.panels.accuracy import band_chart
from fedactive.analysis.results import Runs
from fedactive.data.loader import find_classes
from fedactive.errors import UserError


def emd_curves(runs: Runs) -> dict[str, pd.DataFrame]:
    """Return the curves of each chart of EMD by its name: learning curves with EMD in place of accuracy."""
    tables = [emd_by_round(queried).assign(run=run) for run, queried in runs.queried.items()]
    if not tables:
        return {}
    emd = runs.curves.drop(columns="accuracy").merge(pd.concat(tables), on=["run", "al_round"])
    return {
        # There may be AL rounds without a query.
        which + suffix: emd[emd["what"] == what].dropna(subset=which).rename(columns={which: "accuracy"})
        for suffix, what in (("", LABELLED), (" query", QUERY))
        for which in ("local", "global")
    }


def emd_charts(bands: Mapping[str, pd.DataFrame]) -> list[Markup]:
    charts = [
        band_chart(band, f"{name} EMD".capitalize(), f"{name} EMD", digits=2, size=(480, 330))
        for name, band in bands.items()
    ]
    return [chart for chart in charts if chart]


def class_heat_maps(
    first: pd.DataFrame, queried: Mapping[str, Counts], data_dir: Path | None
) -> list[tuple[str, Markup]]:
    """Draw all labels of the `first` run of each strategy by client and class, on one scale, with a title."""
    here = first[first["run"].isin(queried.keys())]
    labels = {run: queried[run].sum(axis=0) for run in here["run"]}
    most = max((int(counts.max()) for counts in labels.values()), default=1)
    return [
        (name, Markup(heat_map(counts, class_names(run, data_dir, counts), f"Labels of {name}", most)))
        for run in here.to_dict("records")
        for name, counts in [(f"{run['label']} (seed {run['seed']})", labels[run["run"]])]
    ]


def class_names(run: Mapping[Any, Any], data_dir: Path | None, labels: Counts) -> list[str]:
    """Return the names of classes; numbers where they are unknown, as for sites' images or a lost file."""
    folder = data_dir or Path(str(run.get("data_dir", "")))
    try:
        names = list(find_classes(run["dataset"], folder, run["dataset_sha256"]))
    except (UserError, OSError):
        names = []
    return names + [str(c) for c in range(len(names), labels.shape[1])]
