"""Published numbers of the same settings, beside ours.

Those of the yardstick are as FairFAL's authors report them (CVPR 2026), each method by their own runs. They
print no spread, so differences are judged by that of our seeds: if theirs scatter as ours do and are as many,
95% of the differences between equals lie within 1.96·s·√(2/n).
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from fedactive.benchmark.verdict import Verdict

TWO_SIDED_95 = 1.96


def published_numbers(suite: str) -> pd.DataFrame:
    """Return `labelled_percent, method, accuracy` of a suite of one setting; empty if there are none."""
    with (resources.files("fedactive.benchmark") / "published.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file)
    return table[table["suite"] == suite].drop(columns="suite")


def beside_published(verdict: Verdict) -> pd.DataFrame:
    """Return a row of text for each published number that we have a number for; far ones are bold."""
    rows, s = [], spread_of_seeds(verdict.points)
    numbers: list[Any] = list(published_numbers(verdict.suite.name).itertuples())
    for published in numbers:
        points = verdict.points
        there = (points["method"] == published.method) & (points["labelled"] == published.labelled_percent)
        ours = points.loc[there, "accuracy"].dropna()
        row = {"method": published.method, "labelled": f"{published.labelled_percent}%"}
        row["published"] = f"{published.accuracy:.2f}"
        if len(ours):
            difference = ours.mean() - published.accuracy
            text = f"{difference:+.2f}"
            row["ours"] = f"{ours.mean():.2f}" + (f" ± {ours.std():.2f}" if len(ours) > 1 else "")
            row["seeds"] = str(len(ours))
            limit = TWO_SIDED_95 * s * np.sqrt(2 / len(ours))
            row["difference"] = f"**{text}**" if abs(difference) > limit else text
            row["limit"] = "" if np.isnan(limit) else f"±{limit:.2f}"
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def spread_of_seeds(points: pd.DataFrame) -> float:
    """Estimate s, the root of the mean variance over seeds, of all methods and budgets; NaN of one seed."""
    each = points.groupby(["setting", "method", "al_round"])["accuracy"].var()
    return float(np.sqrt(each.mean()))
