"""Learning curves: the chart with its bands, and the tables of their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedactive.analysis.curves import PERCENT, axis_of
from fedactive.analysis.line_chart import Line, line_chart
from fedactive.analysis.panels import Sortable, TableCell
from fedactive.analysis.seeds import seeds_text
from fedactive.analysis.significance import confidence_band
from fedactive.record.schema import METRICS

RESAMPLES = 1000  # more would move the ends of a band by less than the width of a line


def band_of(curves: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Compute mean and band of every point of the curves, with how much was labelled by then."""
    point = ["setting", "strategy", "al_round"]
    labelled = curves.groupby(point, as_index=False)[["labelled", "labels", "counted"]].mean()
    return confidence_band(curves, rng=rng, resamples=RESAMPLES).merge(labelled, on=point)


def band_chart(band: pd.DataFrame, title: str, y: str, **options: Any) -> Markup | None:
    """Draw the curves; None if there are none."""
    axis = axis_of(band)
    lines = [
        Line(str(name), *(part[k].tolist() for k in (axis.column, "mean", "low", "high")))
        for name, part in band.sort_values("al_round").groupby("strategy")
    ]
    if not lines:
        return None
    few, most = band["n"].min(), band["n"].max()
    seeds = f"{few} to {most} seeds" if few < most else f"{most} seed{'s' if most > 1 else ''}"
    note = f"Mean over {seeds}, and its 95% bootstrap band" if most > 1 else f"{seeds}: no band"
    return Markup(line_chart(lines, title, axis.title, y, note=note, **options))


def band_note(curves: pd.DataFrame) -> str:
    known = curves.dropna(subset="accuracy")
    if known.empty:
        return "The accuracy is unknown: no site had test images."
    seeds = known.groupby("strategy")["seed"].nunique()
    if seeds.max() == 1:
        return "One seed each: there is no band, and differences may be chance."
    few = " With so few seeds bands are too narrow." if seeds.min() < 10 else ""
    each = known.groupby(["strategy", "al_round"])["seed"].nunique()
    uneven = " Not all points have equally many seeds: see the table." if each.min() < each.max() else ""
    return f"Mean over {seeds_text(known)} with its 95% bootstrap band.{few}{uneven}"


def accuracy_table(curves: pd.DataFrame) -> Sortable:
    """Make the table of mean accuracy by AL round, best in the last round first.

    Ranks are those of the numbers as shown, so that equal numbers look equal. A mean over fewer seeds than
    the row has is followed by their number.
    """
    mean, std, count = (
        curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc=how, dropna=False)
        for how in ("mean", "std", "count")
    )
    mean = mean.sort_values(mean.columns[-1], ascending=False)
    shown = mean.map(lambda m: float(f"{m:.1f}"))  # `round` takes 68.55, which is less in binary, for 68.6
    ranks = shown.rank(method="dense", ascending=False)
    ranks.loc[:, shown.nunique() < 2] = np.nan  # all are equal, as in round 1
    axis = axis_of(curves)
    labelled = axis.by_round(curves)
    rounds = curves.groupby("strategy")["al_round"].max()
    seeds = curves.groupby("strategy")["seed"].nunique()
    rows = []
    for name in mean.index:
        cells = [TableCell(seeds[name], seeds[name])]
        numbers = zip(*(table.loc[name].tolist() for table in (mean, std, count, ranks)), strict=True)
        for r, (m, s, n, rank) in zip(mean.columns, numbers, strict=True):
            missing = "unknown" if r <= rounds[name] else "–"
            text = _mean_and_spread(missing if np.isnan(m) else f"{m:.1f}", "" if np.isnan(s) else f"{s:.1f}")
            if 0 < n < seeds[name]:
                text += Markup("<small> ({:.0f})</small>").format(n)
            cells.append(TableCell(m, text, {1: "best", 2: "second"}.get(rank, "")))
        rows.append((str(name), cells))
    return Sortable(["strategy", "seeds", *axis.headings(labelled[mean.columns].to_numpy())], rows)


def metrics_table(curves: pd.DataFrame) -> Sortable:
    """Make the table of all metrics: means over a strategy's runs, each at its end, most accurate first."""
    ends = curves.sort_values("al_round").groupby("run").tail(1).groupby("strategy")
    mean, std = (getattr(ends[list(METRICS)], how)() for how in ("mean", "std"))
    axis = axis_of(curves)
    labelled = ends[axis.column].mean()
    rows = []
    for name in mean.sort_values("accuracy", ascending=False).index:
        known = labelled[name]
        cells = [TableCell(known, f"{known:.1f}" if axis is PERCENT else f"{known:.0f}")]
        for metric, entry in METRICS.items():
            m, s = mean.loc[name, metric], std.loc[name, metric]
            text = _mean_and_spread(entry.show(m), "" if np.isnan(s) else entry.show(s))
            cells.append(TableCell(m, text))
        rows.append((str(name), cells))
    return Sortable(["strategy", axis.short, *(entry.heading for entry in METRICS.values())], rows)


def _mean_and_spread(mean: str, spread: str) -> Markup:
    text = Markup('<span class="mean">{}</span>').format(mean)
    return text + Markup("<small> ± {}</small>").format(spread) if spread else text
