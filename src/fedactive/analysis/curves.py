"""Learning curves: test accuracy of the global model against how much is labelled."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedactive.analysis.results import read_runs
from fedactive.errors import ConfigurationError
from fedactive.files import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart, without black, which is for text. Grey
# replaces their yellow, which is hard to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#882255")
MARKERS = "osD^vPX*"
SIZE = (8, 5)  # inches
TEXT: Any = {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "fedactive"}


def learning_curves(folders: Sequence[str | Path]) -> pd.DataFrame:
    """Make a row for each run and AL round: `setting, strategy, seed, al_round, labelled, labels, accuracy`.

    `labelled` and `accuracy` are percent, `labels` are counted. The setting says what differs between the
    runs besides strategy and seed; it is empty if nothing does.
    """
    return read_runs(folders).curves


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean accuracy over seeds: a row per strategy, best in the last AL round first."""
    table = curves.pivot_table(index="strategy", columns="al_round", values="accuracy", aggfunc="mean")
    return table.sort_values(table.columns[-1], ascending=False)


def accuracy_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Compute `mean`, `std` and `seeds` of the accuracy by strategy, best at the end first, and AL round."""
    by_round = curves.groupby(["strategy", "al_round"])["accuracy"]
    table = pd.DataFrame({"mean": by_round.mean(), "std": by_round.std(), "seeds": by_round.count()})
    return table.loc[list(mean_curves(curves).index)]


@dataclass(frozen=True)
class Axis:
    """What curves are drawn over."""

    column: str  # of the curves
    title: str
    short: str  # for a table

    def by_round(self, curves: pd.DataFrame) -> pd.Series:
        """Compute how much is labelled after each AL round; it stays the same once samples run out."""
        return curves.groupby("al_round")[self.column].mean()

    def headings(self, values: np.ndarray) -> list[str]:
        return percents(values) if self is PERCENT else [f"{value:.0f}" for value in values]


PERCENT = Axis("labelled", "labelled (% of all samples)", "labelled (%)")
LABELS = Axis("labels", "labels of all clients", "labels")


def axis_of(curves: pd.DataFrame) -> Axis:
    """Return the axis in which the budgets were given: the number of labels if all count them, or percent."""
    return LABELS if "counted" in curves and curves["counted"].all() else PERCENT


def steps_grow(labelled: pd.Series) -> bool:
    """Return whether a linear axis would press the first rounds together."""
    steps = labelled.diff().dropna()
    return len(steps) > 1 and bool(steps.iloc[-1] >= 10 * steps.iloc[0])


def percents(values: np.ndarray) -> list[str]:
    """Write numbers as percentages, with as few digits as tell them apart."""
    apart = np.unique(np.round(values, 3))  # where samples run out, rounds may have the same
    step = np.diff(apart).min() if len(apart) > 1 else apart[0]
    digits = next((d for d in range(3) if np.abs(values - values.round(d)).max() <= step / 8), 3)
    return [f"{value:.{digits}f}%" for value in values]


def plot_learning_curves(curves: pd.DataFrame, title: str, path: Path) -> None:
    """Save a picture of the curves, of the kind that the path's ending says."""
    with figure_file(path, SIZE) as figure:
        draw_on(figure, curves, title)


def draw_learning_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Return a picture of the curves, which a notebook shows."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(TEXT):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw_on(figure, curves, title)
        figure.canvas.draw()  # with these settings, whatever the notebook's are
    return figure


def draw_on(figure: Figure, curves: pd.DataFrame, title: str) -> None:
    """Draw a line for each strategy, with its name at the end; the band spans the seeds."""
    axes = figure.subplots()
    means = mean_curves(curves)
    # By sorted names, so that a strategy looks the same in every picture of the same strategies.
    style = dict(zip(sorted(means.index), cycle(zip(PALETTE, MARKERS, strict=True)), strict=False))
    axis = axis_of(curves)
    labelled = axis.by_round(curves)
    for name, row in means.iterrows():
        colour, marker = style[str(name)]
        seeds = curves[curves["strategy"] == name].groupby("al_round")["accuracy"]
        low, high = seeds.min(), seeds.max()
        x = labelled[low.index]
        axes.plot(x, row[low.index], color=colour, marker=marker, markersize=5, linewidth=2)
        axes.fill_between(x, low, high, color=colour, alpha=0.1, linewidth=0)
    bottom, top = axes.get_ylim()
    # A strategy may end in an earlier round than others.
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
    if steps_grow(labelled):
        axes.set_xscale("log")
        axes.set_xticks(labelled, axis.headings(labelled.to_numpy()))
        axes.minorticks_off()
    axes.set(title=title, xlabel=axis.title, ylabel="test accuracy (%)")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


@contextmanager
def figure_file(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """Yield a figure to draw on, and save it at the end of the block; text stays text in svg files.

    The same figure gives the same file: without a date or random names.
    """
    import matplotlib  # here, because most commands draw nothing and need not wait for it
    from matplotlib.figure import Figure

    kind, known = path.suffix[1:].lower(), Figure().canvas.get_supported_filetypes()
    if kind not in known:
        raise ConfigurationError("output", str(path), "a picture: " + ", ".join(f".{name}" for name in known))
    with matplotlib.rc_context(TEXT):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        picture = io.BytesIO()
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(picture, dpi=130, format=kind, metadata=undated)
        write_output(path, picture.getvalue())


def spread(heights: np.ndarray, gap: float, floor: float) -> np.ndarray:
    """Move heights of names, highest first, down until neighbours are `gap` apart.

    If the last one is then below the floor, it moves up again, together with those in its way.
    """
    moved = np.array(heights, dtype=float)
    for i in range(1, len(moved)):
        moved[i] = min(moved[i], moved[i - 1] - gap)
    moved[-1] = max(moved[-1], floor)
    for i in reversed(range(len(moved) - 1)):
        moved[i] = max(moved[i], moved[i + 1] + gap)
    return moved
