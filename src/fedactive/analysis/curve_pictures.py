"""Learning curves as pictures: a named line for each strategy, a panel for each setting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedactive.analysis.curves import axis_of, mean_curves, steps_grow
from fedactive.analysis.palette import Style, style_of
from fedactive.analysis.pictures import TEXT, explain, figure_file, round_ticks, spread
from fedactive.analysis.seeds import seeds_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (8.0, 5.0)  # inches of a panel, with room for names of so many letters
ROOM, LETTER = 20, 0.085  # inches of a letter
ACCURACY = "test accuracy (%)"

Panels = Mapping[str, pd.DataFrame]  # curves by the panel's title


def plot_learning_curves(curves: pd.DataFrame, title: str, path: Path) -> None:
    """Save a picture of the curves, of the kind that the path's ending says."""
    plot_panels(panels_by_setting(curves, title), path)


def draw_learning_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Return a picture of the curves, which a notebook shows."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = panels_by_setting(curves, title)
    with matplotlib.rc_context(TEXT):
        figure = Figure(figsize=size_of(panels), layout="constrained")
        draw_panels(figure, panels)
        figure.canvas.draw()  # with these settings, whatever the notebook's are
    return figure


def plot_panels(panels: Panels, path: Path, what: str = ACCURACY, digits: int = 1) -> None:
    """Save a picture of such panels."""
    with figure_file(path, size_of(panels)) as figure:
        draw_panels(figure, panels, what, digits)


def panels_by_setting(curves: pd.DataFrame, title: str = "") -> dict[str, pd.DataFrame]:
    """Return the curves of each setting by its title."""
    if "setting" not in curves or len(curves["setting"].unique()) < 2:
        return {title: curves}
    return {
        f"{title}: {setting}" if title else str(setting): part for setting, part in curves.groupby("setting")
    }


def size_of(panels: Panels) -> tuple[float, float]:
    """Return the size of the picture; long names of strategies make it wider."""
    longest = max(len(str(name)) for curves in panels.values() for name in curves["strategy"].unique())
    width, height = SIZE[0] + LETTER * max(0, longest - ROOM), SIZE[1]
    return (width, height) if len(panels) == 1 else (2 * width, height * ((len(panels) + 1) // 2))


def draw_panels(figure: Figure, panels: Panels, what: str = ACCURACY, digits: int = 1) -> None:
    """Draw two panels beside each other, and say once what lines and bands are."""
    columns = min(2, len(panels))
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for axes, (title, curves) in zip(grid, panels.items(), strict=False):
        draw_curves_on(axes, curves, fill(title, 80), what, digits)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    every = pd.concat(panels.values())
    many = every.groupby("strategy")["seed"].nunique().max() > 1
    band = "; bands: from the lowest to the highest seed" if many else ": no band"
    explain(figure, f"Lines: {'mean over ' if many else ''}{seeds_text(every)}{band}.")


def draw_curves_on(axes: Axes, curves: pd.DataFrame, title: str, what: str, digits: int) -> None:
    means = mean_curves(curves)
    axis = axis_of(curves)
    labelled = axis.by_round(curves)
    for name, row in means.iterrows():
        look = style_of(str(name))
        seeds = curves[curves["strategy"] == name].groupby("al_round")["accuracy"]
        low, high = seeds.min(), seeds.max()
        x = labelled[low.index]
        axes.plot(x, row[low.index], marker=look.marker, markersize=5, linewidth=2, **line_look(look))
        axes.fill_between(x, low, high, color=look.colour, alpha=0.1, linewidth=0)
    name_lines(axes, curves, means, digits)
    if steps_grow(labelled):
        axes.set_xscale("log")
        axes.set_xticks(labelled, axis.headings(labelled.to_numpy()))
        axes.minorticks_off()
    else:
        round_ticks(axes, "x")
    round_ticks(axes, "y")
    axes.set(title=title, xlabel=axis.title, ylabel=what)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def line_look(look: Style) -> dict[str, Any]:
    """Return a style's colour and dashes as matplotlib takes them."""
    return {"color": look.colour, "linestyle": (0, look.dash) if look.dash else "-"}


def name_lines(axes: Axes, curves: pd.DataFrame, means: pd.DataFrame, digits: int) -> None:
    """Write each line's name and last value beside its end, with its seeds where these differ.

    Before the name is a piece of the line, since variants of a strategy differ in its dashes alone.
    """
    bottom, top = axes.get_ylim()
    # A strategy may end in an earlier round than others.
    ends = means.ffill(axis="columns").iloc[:, -1].sort_values(ascending=False)
    heights = spread(ends.to_numpy(), gap=0.045 * (top - bottom), floor=bottom)
    counts = curves.groupby("strategy")["seed"].nunique()
    for (name, end), height in zip(ends.items(), heights, strict=True):
        known = f"{name} (seeds: {counts[str(name)]})" if counts.min() < counts.max() else name
        look = style_of(str(name))
        axes.plot(
            (1.015, 1.065),
            (height, height),
            transform=axes.get_yaxis_transform(),
            linewidth=2,
            clip_on=False,
            **line_look(look),
        )
        axes.annotate(
            f"{known}  {end:.{digits}f}",
            xy=(1, end),
            xytext=(1.075, height),
            xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"),
            color=look.colour,
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )
    axes.set_ylim(bottom, top)
