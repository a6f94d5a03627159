"""Learning curves: the picture with its bands, and the numbers in tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedactive.analysis.charts import Line, line_chart
from fedactive.analysis.curves import labelled_by_round, percents
from fedactive.analysis.panels import Sortable, TableCell
from fedactive.analysis.significance import confidence_band
from fedactive.record.schema import METRICS

RESAMPLES = 1000  # for a band in a picture; the ends move by less than its line's width


def band_of(curves: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Mean and band of every point of the curves, with the share that was labelled by then."""
    point = ["setting", "strategy", "al_round"]
    labelled = curves.groupby(point, as_index=False)["labelled"].mean()
    return confidence_band(curves, rng=rng, resamples=RESAMPLES).merge(labelled, on=point)


def band_chart(
    band: pd.DataFrame, styles: dict[str, int], title: str, y: str, **options: Any
) -> Markup | None:
    """None if there is nothing to show."""
    lines = [
        Line(str(name), styles[str(name)], *(part[k].tolist() for k in ("labelled", "mean", "low", "high")))
        for name, part in band.sort_values("al_round").groupby("strategy")
    ]
    return Markup(line_chart(lines, title, "labelled (% of all samples)", y, **options)) if lines else None


def band_note(curves: pd.DataFrame) -> str:
    known = curves.dropna(subset="accuracy")
    if known.empty:
        return "The accuracy is unknown: no site had test images."
    seeds = known.groupby("strategy")["seed"].nunique()
    if seeds.max() == 1:
        return "One seed each: there is no band, and no telling luck from merit."
    few = " With so few seeds bands are too narrow." if seeds.min() < 10 else ""
    each = known.groupby(["strategy", "al_round"])["seed"].nunique()
    uneven = " Not all points have equally many seeds: see the table." if each.min() < each.max() else ""
    return f"Mean over seeds with its 95% bootstrap band.{few}{uneven}"


def accuracy_table(curves: pd.DataFrame) -> Sortable:
    """Rows best at the end first; ranks go by what is shown, so that equal numbers look equal.

    A mean over fewer seeds than the row has says over how many.
    """
    mean, std, count = (
        curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc=how, dropna=False)
        for how in ("mean", "std", "count")
    )
    mean = mean.sort_values(mean.columns[-1], ascending=False)
    shown = mean.map(lambda m: float(f"{m:.1f}"))  # `round` takes 68.55, which is less in binary, for 68.6
    ranks = shown.rank(method="dense", ascending=False)
    ranks.loc[:, shown.nunique() < 2] = np.nan  # no contest, as in round 1
    labelled = labelled_by_round(curves)
    rounds = curves.groupby("strategy")["al_round"].max()
    seeds = curves.groupby("strategy")["seed"].nunique()
    rows = []
    for name in mean.index:
        cells = [TableCell(seeds[name], seeds[name])]
        numbers = zip(*(table.loc[name].tolist() for table in (mean, std, count, ranks)), strict=True)
        for r, (m, s, n, rank) in zip(mean.columns, numbers, strict=True):
            missing = "unknown" if r <= rounds[name] else "–"
            text = Markup('<span class="mean">{}</span>').format(missing if np.isnan(m) else f"{m:.1f}")
            if not np.isnan(s):
                text += Markup("<small> ± {:.1f}</small>").format(s)
            if 0 < n < seeds[name]:
                text += Markup("<small> ({:.0f})</small>").format(n)
            cells.append(TableCell(m, text, {1: "best", 2: "second"}.get(rank, "")))
        rows.append((str(name), cells))
    return Sortable(["strategy", "seeds", *percents(labelled[mean.columns].to_numpy())], rows)


def metrics_table(curves: pd.DataFrame) -> Sortable:
    """All metrics of every strategy: means over its runs, each at its own end, the most accurate first."""
    ends = curves.sort_values("al_round").groupby("run").tail(1).groupby("strategy")
    mean, std = (getattr(ends[list(METRICS)], how)() for how in ("mean", "std"))
    labelled = ends["labelled"].mean()
    rows = []
    for name in mean.sort_values("accuracy", ascending=False).index:
        cells = [TableCell(labelled[name], f"{labelled[name]:.1f}")]
        for metric, entry in METRICS.items():
            text = Markup('<span class="mean">{}</span>').format(entry.show(mean.loc[name, metric]))
            if not np.isnan(std.loc[name, metric]):
                text += Markup("<small> ± {}</small>").format(entry.show(std.loc[name, metric]))
            cells.append(TableCell(mean.loc[name, metric], text))
        rows.append((str(name), cells))
    return Sortable(["strategy", "labelled (%)", *(entry.heading for entry in METRICS.values())], rows)
