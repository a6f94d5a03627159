"""Class balance: charts of EMD against the share labelled, and heat maps of the labels at the end."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from markupsafe import Markup

from fedactive.analysis.charts import heat_map
from fedactive.analysis.diversity import LABELLED, QUERY, Counts, emd_by_round
from fedactive.analysis.panels.accuracy import band_chart
from fedactive.analysis.results import Runs
from fedactive.data import DATASETS


def emd_curves(runs: Runs) -> dict[str, pd.DataFrame]:
    """What each chart of EMD shows, by its name, as learning curves: EMD takes the place of accuracy."""
    tables = [emd_by_round(queried).assign(run=run) for run, queried in runs.queried.items()]
    if not tables:
        return {}
    emd = runs.curves.drop(columns="accuracy").merge(pd.concat(tables), on=["run", "al_round"])
    return {
        # A round in which nobody asked has no query.
        which + suffix: emd[emd["what"] == what].dropna(subset=which).rename(columns={which: "accuracy"})
        for suffix, what in (("", LABELLED), (" query", QUERY))
        for which in ("local", "global")
    }


def emd_charts(bands: Mapping[str, pd.DataFrame], styles: dict[str, int]) -> list[Markup]:
    charts = [
        band_chart(band, styles, f"{name} EMD".capitalize(), f"{name} EMD", digits=2, size=(480, 330))
        for name, band in bands.items()
    ]
    return [chart for chart in charts if chart]


def class_heat_maps(first: pd.DataFrame, queried: Mapping[str, Counts]) -> list[tuple[str, Markup]]:
    """All labels by client and class, of the `first` run of every strategy; one scale for all."""
    here = first[first["run"].isin(queried.keys())]
    labels = {run: queried[run].sum(axis=0) for run in here["run"]}
    most = max((int(counts.max()) for counts in labels.values()), default=1)
    return [
        (name, Markup(heat_map(labels[run], class_names(dataset, labels[run]), f"Labels of {name}", most)))
        for run, name, dataset in zip(here["run"], here["label"], here["dataset"], strict=True)
    ]


def class_names(dataset: str, labels: Counts) -> list[str]:
    names = list(DATASETS[dataset].classes) if dataset in DATASETS else []
    return names + [str(c) for c in range(len(names), labels.shape[1])]
