"""Tables and pictures of our own runs whose budgets count labels, beside what the paper has.

Runs are chosen by their settings, as in `dataset=svhn algorithm=ridge`. Those that are not given must be the
same in all runs, but for strategy, who chooses first, and seed. A table shows accuracies, or with
`metric=balanced_accuracy` those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd

from fedactive.analysis.curve_pictures import plot_learning_curves
from fedactive.analysis.markdown import to_markdown
from fedactive.analysis.selection import has_settings, wanted_settings
from fedactive.errors import UserError, unknown_name
from fedactive.record.archive import Archive
from fedactive.record.schema import METRICS
from fedactive.record.stored import StoredRun

AUTO = "auto"
SHARES = [name for name, metric in METRICS.items() if metric.percent and not metric.lower_is_better]
OF_A_ROW = ("strategy", "selector", "strategy_options", "first", "seed")


def few_label_curves(
    words: Iterable[str], runs: Iterable[StoredRun], metric: str = "accuracy"
) -> pd.DataFrame:
    """Return the learning curves of the runs that have these settings, `name=value,value`."""
    wanted = wanted_settings(words)
    rows, others = [], set()
    for own in Archive(runs).runs.values():
        for seed, run in own.items():
            settings = dict(run.identity)
            counted = isinstance(settings["budget"], str)  # in labels, not in percent
            if not counted or not has_settings(run, wanted):
                continue
            others.add(tuple((name, value) for name, value in settings.items() if name not in OF_A_ROW))
            who = {
                "strategy": settings["strategy"],
                "first": settings["first"],
                "seed": seed,
                "counted": True,
            }
            for r in run.al_rounds:
                labels = {"al_round": r.al_round, "labels": r.labelled}
                rows.append(who | labels | {metric: METRICS[metric].scale * r.measure(metric)})
    if not rows:
        raise UserError("there are no such runs")
    if len(others) > 1:
        first, second = sorted(map(dict, others), key=repr)[:2]
        apart = ", ".join(name for name in first if first[name] != second[name])
        raise UserError(f"the runs differ in {apart}; say which are meant, as in {apart.split(',')[0]}=VALUE")
    return pd.DataFrame(rows)


class Mean(NamedTuple):
    mean: float
    error: float  # standard error of the mean; NaN of one seed
    seeds: int

    @classmethod
    def of(cls, seeds: Sequence[float]) -> Mean:
        error = stdev(seeds) / math.sqrt(len(seeds)) if len(seeds) > 1 else math.nan
        return cls(fmean(seeds), error, len(seeds))


Row = tuple[str, str]  # a strategy, and who chose first


def few_labels_table(words: Sequence[str], runs: Iterable[StoredRun]) -> str:
    """Write mean and standard error over seeds by strategy and number of labels; bold is the best mean."""
    asked = [word for word in words if word.startswith("metric=")]
    metric = asked[-1].removeprefix("metric=") if asked else "accuracy"
    if metric not in SHARES:
        raise unknown_name("metric", metric, SHARES)
    found: dict[Row, dict[int, list[float]]] = {}
    settings = [word for word in words if word not in asked]
    for point in few_label_curves(settings, runs, metric).to_dict("records"):
        row = found.setdefault((str(point["strategy"]), str(point["first"])), {})
        row.setdefault(int(point["labels"]), []).append(float(point[metric]))
    cells = {row: {n: Mean.of(seeds) for n, seeds in own.items()} for row, own in found.items()}
    budgets = sorted({labels for row in cells.values() for labels in row})
    best = {
        n: max((row for row in cells if n in cells[row]), key=lambda r: cells[r][n].mean) for n in budgets
    }
    order = sorted(cells, key=lambda row: -sum(cell.mean for cell in cells[row].values()) / len(cells[row]))

    def write(row: Row, labels: int) -> str:
        if labels not in cells[row]:
            return ""
        mean, error, _ = cells[row][labels]
        text = f"**{mean:.1f}**" if math.isclose(mean, cells[best[labels]][labels].mean) else f"{mean:.1f}"
        return text if math.isnan(error) else f"{text} ± {error:.1f}"

    rows = [
        {"strategy": f"`{row[0]}`", "round 1 by": f"`{row[1]}`"} | {f"{n:,}": write(row, n) for n in budgets}
        for row in order
    ]
    counts = sorted({cell.seeds for row in cells.values() for cell in row.values()})
    what = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    plural = "" if counts[-1] == 1 else "s"
    title = METRICS[metric].title
    text = f"{title[0].upper()}{title[1:]} in percent by labels of all clients, "
    text += f"mean of {what} seed{plural} ± standard error.\n\n"
    return text + to_markdown(pd.DataFrame(rows)) + verdict_on_auto(cells, best)


def verdict_on_auto(cells: Mapping[Row, Mapping[int, Mean]], best: Mapping[int, Row]) -> str:
    """Say at how many budgets `auto` is within one standard error of the best."""
    own = [row for row in cells if row[0] == AUTO]
    if len(own) != 1 or len(cells) < 2:
        return ""
    top = {n: cells[row][n] for n, row in best.items() if n in cells[own[0]]}
    behind = {n: top[n].mean - cells[own[0]][n].mean for n in top}
    far = [f"{gap:.1f} points at {n:,}" for n, gap in behind.items() if not gap <= top[n].error]
    near = len(top) - len(far)
    text = f"\n`{AUTO}` lies within one standard error of the best mean at {near} of {len(top)} budgets"
    return text + (f"; it is behind by {', '.join(far)}.\n" if far else ".\n")


def few_labels_picture(words: list[str], runs: Iterable[StoredRun], kind: str = ".svg") -> bytes:
    """Draw the curves; the title is given as `title=Words_joined_by_underscores`."""
    titles = [word.partition("=")[2] for word in words if word.startswith("title=")]
    curves = few_label_curves([word for word in words if not word.startswith("title=")], runs)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"picture{kind}"
        plot_learning_curves(curves, "".join(titles).replace("_", " "), path)
        return path.read_bytes()
