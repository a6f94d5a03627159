"""Learning curves: test accuracy of the global model against how much is labelled."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedactive.analysis.results import read_runs
from fedactive.errors import ConfigurationError
from fedactive.files import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers too; black is for text, and a grey stands for
# their yellow, which nobody can read on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = "osD^vPX"


def learning_curves(folders: Sequence[str | Path]) -> pd.DataFrame:
    """One row per run and AL round: `setting, strategy, seed, al_round, labelled, accuracy`, both in percent.

    The setting names what differs between the runs besides strategy and seed; with one setting it is empty.
    """
    return read_runs(folders).curves


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy over seeds: strategies down, AL rounds across, the best at the end first."""
    table = curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc="mean")
    return table.sort_values(table.columns[-1], ascending=False)


def labelled_by_round(curves: pd.DataFrame) -> pd.Series:
    """Percent; where samples run out, rounds may have the same."""
    return curves.groupby("al_round")["labelled"].mean()


def percents(values: np.ndarray) -> list[str]:
    """As whole numbers where these are near enough; else with the digits that tell them apart."""
    apart = np.unique(np.round(values, 3))  # where samples run out, rounds may have the same
    step = np.diff(apart).min() if len(apart) > 1 else apart[0]
    digits = next((d for d in range(3) if np.abs(values - values.round(d)).max() <= step / 8), 3)
    return [f"{value:.{digits}f}%" for value in values]


def plot_learning_curves(curves: pd.DataFrame, title: str, path: Path) -> None:
    """One line per strategy, named at its end; the band spans the seeds."""
    with saved(path, (8, 5)) as figure:
        axes = figure.subplots()
        means = mean_curves(curves)
        # Colours follow the names, so that a strategy looks the same in every picture of the same set.
        style = dict(zip(sorted(means.index), cycle(zip(PALETTE, MARKERS, strict=True)), strict=False))
        labelled = labelled_by_round(curves)
        for name, row in means.iterrows():
            colour, marker = style[str(name)]
            seeds = curves[curves["strategy"] == name].groupby("al_round")["accuracy"]
            low, high = seeds.min(), seeds.max()
            x = labelled[low.index]
            axes.plot(x, row[low.index], color=colour, marker=marker, markersize=5, linewidth=2)
            axes.fill_between(x, low, high, color=colour, alpha=0.1, linewidth=0)
        bottom, top = axes.get_ylim()
        # Some may end before others, and higher.
        ends = means.ffill(axis="columns").iloc[:, -1].sort_values(ascending=False)
        heights = spread(ends.to_numpy(), gap=0.045 * (top - bottom), floor=bottom)
        counts = curves.groupby("strategy")["seed"].nunique()
        for (name, end), height in zip(ends.items(), heights, strict=True):
            known = f"{name} (seeds: {counts[str(name)]})" if counts.min() < counts.max() else name
            axes.annotate(
                f"{known}  {end:.1f}",
                xy=(labelled.iloc[-1], end),
                xytext=(1.01, height),
                textcoords=("axes fraction", "data"),
                color=style[str(name)][0],
                va="center",
                fontweight="bold",
                annotation_clip=False,
            )
        axes.set(title=title, xlabel="labelled (% of all samples)", ylabel="test accuracy (%)")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)


@contextmanager
def saved(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure to draw on, saved at the end of the block; text stays text in svg files.

    The same figure is the same file: no date, no random names.
    """
    import matplotlib  # here, for most commands draw nothing and need not wait for it
    from matplotlib.figure import Figure

    kind, known = path.suffix[1:].lower(), Figure().canvas.get_supported_filetypes()
    if kind not in known:
        raise ConfigurationError("output", str(path), "a picture: " + ", ".join(f".{name}" for name in known))
    with matplotlib.rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "fedactive"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        picture = io.BytesIO()
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(picture, dpi=130, format=kind, metadata=undated)
        write_output(path, picture.getvalue())


def spread(heights: np.ndarray, gap: float, floor: float) -> np.ndarray:
    """Heights of names, best first, moved down just enough that neighbours are `gap` apart.

    Where the last would then lie below the floor, it moves back up, and with it those that are in its way.
    """
    moved = np.array(heights, dtype=float)
    for i in range(1, len(moved)):
        moved[i] = min(moved[i], moved[i - 1] - gap)
    moved[-1] = max(moved[-1], floor)
    for i in reversed(range(len(moved) - 1)):
        moved[i] = max(moved[i], moved[i + 1] + gap)
    return moved
