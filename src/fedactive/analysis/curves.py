"""Learning curves: test accuracy of the global model against how much is labelled."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedactive.state import round_accuracy

# Okabe and Ito's colours, told apart by colour-blind readers too; black is for text.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = "osD^vPX"


def learning_curves(folders: Sequence[Path]) -> pd.DataFrame:
    """One row per run and AL round: `strategy, seed, al_round, labelled (percent), accuracy (percent)`."""
    tables = []
    for folder in folders:
        # Read as it stands, not as an Experiment: the strategy may be a plugin that is not loaded here.
        experiment = tomllib.loads((folder / "experiment.toml").read_text())
        metrics = pd.read_parquet(folder / "metrics.parquet")
        samples = len(pd.read_parquet(folder / "clients.parquet", columns=["client"]))
        labelled = metrics.groupby("al_round")["labelled"].first()
        selector = "" if experiment["selector"] in ("none", "both") else f" ({experiment['selector']})"
        table = pd.DataFrame(
            {"labelled": 100 * labelled / samples, "accuracy": 100 * round_accuracy(metrics)}
        ).reset_index()
        table.insert(0, "strategy", experiment["strategy"] + selector)
        table.insert(1, "seed", experiment["seed"])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy over seeds: strategies down, percent labelled across, the best at the end first."""
    table = curves.pivot_table(index="strategy", columns="labelled", values="accuracy", aggfunc="mean")
    return table.sort_values(table.columns[-1], ascending=False)


def plot_learning_curves(curves: pd.DataFrame, title: str, path: Path) -> None:
    """A picture with one line per strategy, named at its end; the band spans the seeds."""
    means = mean_curves(curves)
    with matplotlib.rc_context({"font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        # Colours follow the names, so that a strategy looks the same in every picture of the same set.
        style = {name: (PALETTE[i % 7], MARKERS[i % 7]) for i, name in enumerate(sorted(means.index))}
        for name, row in means.iterrows():
            colour, marker = style[str(name)]
            seeds = curves[curves["strategy"] == name].groupby("labelled")["accuracy"]
            axes.plot(row.index, row, color=colour, marker=marker, markersize=5, linewidth=2)
            axes.fill_between(row.index, seeds.min(), seeds.max(), color=colour, alpha=0.1, linewidth=0)
        heights = spread(means.iloc[:, -1].to_numpy(), gap=0.045 * np.ptp(axes.get_ylim()))
        for (name, row), height in zip(means.iterrows(), heights, strict=True):
            axes.annotate(
                f"{name}  {row.iloc[-1]:.1f}",
                xy=(row.index[-1], row.iloc[-1]),
                xytext=(row.index[-1] + 0.03 * np.ptp(row.index), height),
                color=style[str(name)][0],
                va="center",
                fontweight="bold",
                annotation_clip=False,
            )
        axes.set(title=title, xlabel="labelled (% of all samples)", ylabel="test accuracy (%)")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=130)


def spread(heights: np.ndarray, gap: float) -> np.ndarray:
    """The heights, best first, moved down just enough that neighbours are `gap` apart."""
    moved = np.array(heights, dtype=float)
    for i in range(1, len(moved)):
        moved[i] = min(moved[i], moved[i - 1] - gap)
    return moved
