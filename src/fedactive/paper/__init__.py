"""The paper's tables and figures by name, and its numbers (Kim, Bae, Song & Yun, CVPR 2023).

The command line reads the names for its help, so nothing here imports pandas before it is needed.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from fedactive.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd

TABLES = {
    "accuracy": "test accuracy, four datasets, seven strategies by either model",
    "ensembles": "test accuracy of LoGo and of plain ways to use both models",
    "algorithms": "test accuracy with FedProx and SCAFFOLD",
    "emd": "class balance of what entropy labels, by imbalance and heterogeneity",
    "observation": "Figure 2: whose model is the better selector; the runs of emd",
    "penalty": "Figures 4 and 5: who beats whom over all 38 settings",
    "cost": "seconds per query and client, measured in runs of accuracy",
}
FIGURES = ("observation", "matrices", "bars", "penalty", "curves", "clients", "cost", "agreement")


def paper_table(name: str) -> pd.DataFrame:
    """Return one of the paper's tables, one number or setting per row.

    They are `settings` (the 38 of the comparison), `accuracy`, `ensembles`, `fl_algorithms`, `emd`, and
    `query_cost_seconds`, the time that a query takes per client. The last one's column `labelled_percent` has
    the percent labelled before and after the query, as in "5->10".
    """
    import pandas as pd

    folder = resources.files(__name__)
    known = {file.name.removesuffix(".csv") for file in folder.iterdir() if file.name.endswith(".csv")}
    if name not in known:
        raise unknown_name("table", name, known)
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
