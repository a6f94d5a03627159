"""Queried images: a few thumbnails of every strategy, by client and AL round."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from fedactive.analysis.charts import png
from fedactive.analysis.panels import Values
from fedactive.analysis.svg import short_names
from fedactive.data.dataset import Dataset
from fedactive.data.loader import load
from fedactive.errors import DataError, UserError
from fedactive.experiment import Experiment
from fedactive.record.run_reader import read_selections

THUMBNAILS = 96  # per strategy, at most
CLIENTS, EACH = 6, 5  # at most
LETTERS = 6  # that fit below a thumbnail


def image_panel(
    first: pd.DataFrame, queried: Collection[str], data_dir: Path | None
) -> tuple[list[Values], str]:
    """Return thumbnails of the `first` run of each strategy, all of one dataset, or why there are none.

    `queried` are the runs whose labels are known. Only run folders know which samples these belong to.
    """
    first = first[first["run"].isin(queried)]
    if first.empty:
        return [], "Images are not shown: only the sites know which were queried."
    first = first[first["folder"].notna()]
    if first.empty:
        return [], "Images are not shown: exported results do not say which were queried."
    try:
        used = first.iloc[0]
        data = load(
            used["dataset"],
            data_dir or Path(used["data_dir"]),
            used["dataset_sha256"],
            int(known(used, "image_size")),
            known(used, "test_share"),
        )
        if len(data.input_shape) != 3:
            return [], "Images are not shown: the dataset holds features."
        strategies = [
            {"name": row["label"], "seed": row["seed"], **_thumbnails(Path(row["folder"]), data)}
            for row in first.to_dict("records")
        ]
    except (UserError, OSError) as error:
        return [], f"Images are not shown: {error}."
    return strategies, ""


def known(run: pd.Series, setting: str) -> float:
    """Return a setting that older runs lack, as it was for them."""
    value = run.get(setting)
    return float(getattr(Experiment, setting) if value is None or pd.isna(value) else value)


def _thumbnails(folder: Path, data: Dataset) -> Values:
    chosen = read_selections(folder).to_pandas()
    if not chosen["sample"].between(0, len(data.train_inputs) - 1).all():
        raise DataError(f"{data.name} here is not the one that was used")
    last = int(chosen["al_round"].max())
    rounds = sorted({min(2, last), (2 + last) // 2, last})  # round 1 is random for all
    clients = sorted(chosen["client"].unique())[:CLIENTS]
    each = min(EACH, THUMBNAILS // (len(rounds) * len(clients)))
    shown = chosen[chosen["al_round"].isin(rounds) & chosen["client"].isin(clients)]
    captions = short_names(data.classes, LETTERS)

    def thumbnail(sample: int) -> Values:
        c = int(data.train_labels[sample])
        return {
            "src": png(data.train_inputs[sample].numpy()),
            "name": data.classes[c],
            "caption": captions[c],
        }

    cells = {
        key: [thumbnail(s) for s in part["sample"].head(each)]
        for key, part in shown.groupby(["client", "al_round"])
    }
    rows = [{"client": k, "cells": [cells.get((k, r), []) for r in rounds]} for k in clients]
    return {"rounds": rounds, "rows": rows}
