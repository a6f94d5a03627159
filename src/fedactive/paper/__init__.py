"""The numbers of the paper's tables (Kim, Bae, Song & Yun, CVPR 2023), to set results beside them."""

from __future__ import annotations

from importlib import resources

import pandas as pd

from fedactive.errors import unknown_name

__all__ = ["paper_table"]


def paper_table(name: str) -> pd.DataFrame:
    """One of the paper's tables, tidy: `settings` (the 38 of the comparison), `accuracy`, `ensembles`,
    `fl_algorithms`, `emd`, or `query_cost_seconds`, what a query costs each client.

    The last one's column `labelled_percent` says how far the labels grow, as in "5->10".
    """
    folder = resources.files(__name__)
    known = {file.name.removesuffix(".csv") for file in folder.iterdir() if file.name.endswith(".csv")}
    if name not in known:
        raise unknown_name("table", name, known)
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
