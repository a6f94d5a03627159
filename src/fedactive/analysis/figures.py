"""Pictures for a paper, of any runs: learning curves, ranks, class balance, cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd

from fedactive.analysis.cd_diagram import draw_critical_difference
from fedactive.analysis.curve_pictures import panels_by_setting, plot_panels
from fedactive.analysis.palette import TINTS
from fedactive.analysis.panels.class_balance import emd_curves
from fedactive.analysis.panels.cost import Cost, cost_of
from fedactive.analysis.pictures import explain, figure_file, round_ticks
from fedactive.analysis.ranks import rank_methods
from fedactive.analysis.results import Runs
from fedactive.analysis.seeds import seeds_text
from fedactive.errors import RunError
from fedactive.record.schema import METRICS

EMD = "earth mover's distance to balanced classes"


def draw_curves(runs: Runs, metric: str, title: str, path: Path) -> None:
    """Draw the learning curves of each setting."""
    entry = METRICS[metric]
    known = measured(runs, metric)
    plot_panels(panels_by_setting(known, title), path, f"test {entry.heading}", 1 if entry.percent else 3)


def draw_ranks(runs: Runs, metric: str, title: str, path: Path) -> None:
    """Draw mean ranks over settings and budgets, and the critical difference.

    AL round 1 does not count: its labels are random for all, so there is no query to judge yet.
    """
    curves = measured(runs, metric)
    later = curves[curves["al_round"] > 1]
    scores = later.pivot_table(index=["setting", "al_round"], columns="strategy", values="accuracy")
    ranks = rank_methods(-scores if METRICS[metric].lower_is_better else scores)
    if not ranks.comparisons:
        raise RunError(
            "there is no setting and budget at which all strategies have runs; choose some with --where"
        )
    counted = f"{ranks.comparisons} comparisons (settings × budgets), {seeds_text(later)}"
    draw_critical_difference(ranks, fill(f"{title}: {counted}" if title else counted, 90), path)


def draw_balance(runs: Runs, _: str, title: str, path: Path) -> None:
    """Draw how balanced the classes of the labelled sets are: of each client's own, and of all together."""
    found = emd_curves(runs)
    if not found:
        raise RunError("class balance is not known: only the sites know which classes their labels have")
    kinds = {"local": "mean of the clients' own labels", "global": "labels of all clients together"}
    panels = {
        f"{name}: {what}" if name else what: curves
        for name in panels_by_setting(found["local"], title)
        for kind, what in kinds.items()
        for curves in [panels_by_setting(found[kind], title)[name]]
    }
    plot_panels(panels, path, EMD, digits=2)


def draw_cost(runs: Runs, _: str, title: str, path: Path) -> None:
    """Draw the time of a run by phase, a bar for each strategy."""
    from matplotlib.patches import Patch

    panels = panels_by_setting(runs.curves, title)
    costs = {name: cost_of(curves, runs.seconds) for name, curves in panels.items()}
    known = {name: cost for name, cost in costs.items() if cost}
    if not known:
        raise RunError("there is no AL round whose time is known of all runs")
    rows = [len(cost.phases) for cost in known.values()]
    phases = list(dict.fromkeys(str(phase) for cost in known.values() for phase in cost.phases.columns))
    with figure_file(path, (8, 1.4 * len(rows) + 0.3 * sum(rows) + 0.4)) as figure:
        grid = figure.subplots(len(rows), 1, squeeze=False, height_ratios=rows)[:, 0]
        for axes, (name, cost) in zip(grid, known.items(), strict=True):
            ends = np.zeros(len(cost.phases))
            for phase, values in cost.phases.items():
                tint = TINTS[phases.index(str(phase)) % len(TINTS)]
                axes.barh(cost.phases.index, values, left=ends, color=tint)
                ends += values.to_numpy()
            for y, end in enumerate(ends):
                axes.annotate(f"{end:.3g}", (end, y), (4, 0), textcoords="offset points", va="center")
            axes.invert_yaxis()
            axes.set(title=fill(name, 80), xlabel=unit_of(cost))
            axes.margins(x=0.08)
            round_ticks(axes, "x")
            axes.spines[["top", "right"]].set_visible(False)
        keys = [Patch(color=TINTS[i % len(TINTS)], label=phase) for i, phase in enumerate(phases)]
        figure.legend(handles=keys, frameon=False, loc="outside upper center", ncols=min(3, len(phases)))
        explain(figure, f"Mean time of each strategy's runs over {seeds_text(runs.curves)}.")


def unit_of(cost: Cost) -> str:
    names = {"s": "seconds", "min": "minutes", "h": "hours"}
    return f"{names[cost.unit]} of {cost.what.rstrip(',')}"


def measured(runs: Runs, metric: str) -> pd.DataFrame:
    """Return the curves of a metric, in the column `accuracy`."""
    curves = runs.curves.assign(accuracy=runs.curves[metric]).dropna(subset="accuracy")
    if curves.empty:
        raise RunError(f"the {METRICS[metric].title} of these runs is not known")
    return curves


DRAW: dict[str, Callable[[Runs, str, str, Path], None]] = {
    "curves": draw_curves,
    "ranks": draw_ranks,
    "balance": draw_balance,
    "cost": draw_cost,
}
