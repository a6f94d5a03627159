"""The paper's figures, drawn from our runs, each saved under a path (svg, pdf or png).

Kim et al., Re-thinking Federated Active Learning based on Inter-class Diversity, CVPR 2023: Figure 3
(observation), 4 (matrices), 5 (bars), 6 (penalty) and the learning curves of its appendix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedactive.analysis.curves import MARKERS, PALETTE, plot_learning_curves
from fedactive.analysis.significance import AVERAGE
from fedactive.errors import RunError
from fedactive.paper.folders import StoredRun
from fedactive.paper.settings import COMPARED, PaperSetting

COLOURS = "cividis"  # reads the same with any colour vision, and in grey


def observation_figure(gaps: pd.DataFrame, path: Path) -> Figure:
    """Figure 3, from `comparison.observation`: above zero the global model is the better selector."""
    with saved(path, (6, 4)) as figure:
        axes = figure.subplots()
        place = {rho: i for i, rho in enumerate(sorted(gaps["rho"].unique()))}
        for i, (alpha, part) in enumerate(gaps.groupby("alpha")):
            axes.plot(
                part["rho"].map(place),
                part["gap"],
                color=PALETTE[i],
                marker=MARKERS[i],
                linewidth=2,
                label=f"α = {alpha:g}".replace("inf", "∞"),
            )
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(ylim=(-1.05, 1.05), xlabel="global imbalance ρ", ylabel="winning rate, global less local")
        axes.set_xticks(list(place.values()), [f"{rho:g}" for rho in place])
        axes.legend(frameon=False)
        tidy(axes)
    return figure


def matrices(run: StoredRun) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels and class-wise test accuracy (percent) after AL round 1: a row per client, then the federation.

    A client's accuracy is that of its local-only model, the last row's that of the global model.
    """
    labels = run.labels(1) if run.rounds else []
    first = run.metrics[run.metrics["al_round"] == 1] if labels else pd.DataFrame(columns=["model"])
    local = first[first["model"] == "local"]
    if local.empty:
        raise RunError(
            f"{run.folder} has no local-only models of the first AL round: "
            "they are trained at the second query, by strategies that use them"
        )
    last = first[first["model"] == "global"].sort_values("fl_round").tail(1)
    accuracy = 100 * np.vstack([*local.sort_values("client")["class_accuracy"], *last["class_accuracy"]])
    C = accuracy.shape[1]
    counts = np.array([np.bincount(of_client, minlength=C) for of_client in labels])
    rows = [f"k{k}" for k in range(1, len(counts) + 1)] + ["all"]
    columns = [f"c{c}" for c in range(1, C + 1)]
    return (
        pd.DataFrame(np.vstack([counts, counts.sum(axis=0)]), rows, columns),
        pd.DataFrame(accuracy, rows, columns),
    )


def matrices_figure(run: StoredRun, path: Path) -> Figure:
    """Figure 4: how many labels of each class every client has, and how well its model knows the class."""
    counts, accuracy = matrices(run)
    with saved(path, (11, 5)) as figure:
        left, right = figure.subplots(1, 2)
        # The last row holds all clients' labels: its colours would drown theirs.
        heat(left, counts, "{:.0f}", high=counts.iloc[:-1].to_numpy().max())
        heat(right, accuracy, "{:.0f}", high=100)
        left.set_title("labels")
        right.set_title("test accuracy (%), local-only models and global model")
    return figure


def penalty_figure(matrix: pd.DataFrame, path: Path) -> Figure:
    """Figure 6, from `comparison.penalty`: how often the row beats the column; low columns are good."""
    with saved(path, (7, 6)) as figure:
        axes = figure.subplots()
        heat(axes, matrix, "{:.1f}", high=max(matrix.to_numpy().max(), 1e-9))
        axes.axhline(len(matrix.drop(index=AVERAGE)) - 0.5, color="white", linewidth=3)
        axes.set_title("settings in which the row beats the column")
    return figure


def bars_figure(shares: pd.DataFrame, path: Path) -> Figure:
    """Figure 5, from `comparison.win_shares`: LoGo's wins in colour, its defeats black and hatched.

    n is the number of settings.
    """
    groups = list(shares.groupby(["category", "value"], sort=False))
    columns = 4
    with saved(path, (14, 2.6 * -(-len(groups) // columns))) as figure:
        grid = figure.subplots(-(-len(groups) // columns), columns, sharey=True, squeeze=False).ravel()
        baselines = [name for name in COMPARED if name in set(shares["baseline"])]
        for axes, ((category, value), part) in zip(grid, groups, strict=False):
            part = part.set_index("baseline").reindex(baselines)
            places = np.arange(len(part))
            axes.bar(places - 0.2, part["win"], 0.4, color=PALETTE[: len(part)])
            axes.bar(places + 0.2, part["defeat"], 0.4, color="black", hatch="//", edgecolor="white")
            title = f"{category} {value}".strip()
            axes.set_title(f"{title} (n = {part['settings'].max():.0f})", fontsize=9)
            axes.set_xticks(places, baselines, rotation=35, ha="right", fontsize=8)
            tidy(axes)
        for axes in grid[::columns]:
            axes.set_ylabel("LoGo wins / loses (%)")
        for axes in grid[len(groups) :]:
            axes.set_visible(False)
    return figure


def curves_figure(curves: pd.DataFrame, setting: PaperSetting, path: Path) -> None:
    """Learning curves of a setting, from `comparison.setting_curves`, as far as all strategies have got."""
    own = curves[curves["setting"] == setting.number]
    if own.empty:
        raise RunError(f"no runs of setting {setting.number} ({setting.label})")
    common = own.groupby(["strategy", "seed"])["al_round"].max().min()
    plot_learning_curves(own[own["al_round"] <= common], setting.label, path)


# ------------------------------------------------------------------------------------------------- drawing


@contextmanager
def saved(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure to draw on, saved at the end of the block; text stays text in svg files."""
    with matplotlib.rc_context({"font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(path, dpi=130)


def heat(axes: Any, table: pd.DataFrame, form: str, high: float) -> None:
    """A table as coloured cells with its numbers in them."""
    values = table.to_numpy(float)
    axes.imshow(values, cmap=COLOURS, vmin=0, vmax=high, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        dark = value < 0.6 * high
        axes.text(
            j, i, form.format(value), ha="center", va="center", fontsize=8, color="white" if dark else "black"
        )
    axes.set_xticks(range(len(table.columns)), table.columns, rotation=35)
    axes.set_yticks(range(len(table.index)), table.index)


def tidy(axes: Any) -> None:
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
