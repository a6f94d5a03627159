"""The critical-difference picture: methods on a line of mean ranks; bars join those that do not differ.

After Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 2006.
"""

from __future__ import annotations

from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING

from fedactive.analysis.palette import style_of
from fedactive.analysis.pictures import explain, figure_file
from fedactive.analysis.ranks import Ranks, cliques
from fedactive.errors import RunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, LINE = 8.0, 0.26  # inches: of the picture, between names
NAMES = 0.3  # room for names on either side, as a share of the axis


def draw_critical_difference(ranks: Ranks, title: str, path: Path) -> None:
    """Save the picture, of the kind that the path's ending says."""
    require_ranks(ranks)
    with figure_file(path, size_of(ranks)) as figure:
        draw_ranks(figure, ranks, title)


def require_ranks(ranks: Ranks) -> None:
    if not ranks.critical_difference > 0:
        raise RunError("there are no ranks to draw: two strategies with runs at two budgets are needed")


def size_of(ranks: Ranks) -> tuple[float, float]:
    """Return the width and height of the picture in inches."""
    groups = cliques(ranks.means, ranks.critical_difference)
    return WIDTH, 1.4 + LINE * (depth_of(groups) + ceil(len(ranks.means) / 2))


def depth_of(groups: list[list[str]]) -> float:
    """Return how many lines there are between the axis and the first name."""
    return 0.5 * len(groups) + 1


def draw_ranks(figure: Figure, ranks: Ranks, title: str) -> None:
    """Draw the best methods on the left, one bar below the axis for each group that does not differ."""
    groups = cliques(ranks.means, ranks.critical_difference)
    half, depth = ceil(len(ranks.means) / 2), depth_of(groups)
    axes = figure.subplots()
    low, high = floor(ranks.means.min()), max(ceil(ranks.means.max()), floor(ranks.means.min()) + 1)
    room = NAMES * (high - low)
    right = max(high + room, low + 1.05 * ranks.critical_difference)  # which may be longer than the axis
    axes.set(xlim=(low - room, right), ylim=(depth + half, -3))
    axes.set_axis_off()
    draw_axis(axes, low, high)
    draw_difference(axes, low, ranks.critical_difference)
    for i, group in enumerate(groups):
        ends = ranks.means[group[0]], ranks.means[group[-1]]
        reach = 0.005 * (high - low)
        y = 0.5 * (i + 1)
        axes.plot((ends[0] - reach, ends[1] + reach), (y, y), color="black", linewidth=4)
    for i, (name, rank) in enumerate(ranks.means.items()):
        left = i < half
        y = depth + (i if left else len(ranks.means) - 1 - i)
        end = low - 0.02 * room if left else high + 0.02 * room
        look = style_of(str(name))
        axes.plot((rank, rank, end), (0, y, y), color=look.colour, linewidth=1.2)
        axes.plot((rank,), (0,), color=look.colour, marker=look.marker, markersize=6, clip_on=False)
        words = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
        axes.text(end, y, f"{words} " if left else f" {words}", ha="right" if left else "left", va="center")
    axes.set_title(title, fontsize=10)
    explain(figure, "Black bars join what does not differ by the critical difference (Nemenyi, 5%).")


def draw_axis(axes: Axes, low: int, high: int) -> None:
    axes.plot((low, high), (0, 0), color="black", linewidth=1.2)
    step = max(1, round((high - low) / 10))
    for tick in range(low, high + 1, step):
        axes.plot((tick, tick), (0, -0.25), color="black", linewidth=1.2)
        axes.text(tick, -0.4, str(tick), ha="center", va="bottom")
    axes.text((low + high) / 2, -1.25, "mean rank (1 is best)", ha="center", va="bottom", fontsize=9)


def draw_difference(axes: Axes, low: int, difference: float) -> None:
    """Draw how far apart two mean ranks must be, above the axis."""
    axes.plot((low, low + difference), (-2.2, -2.2), color="black", linewidth=1.5)
    for end in (low, low + difference):
        axes.plot((end, end), (-2.4, -2.0), color="black", linewidth=1.5)
    axes.text(low + difference / 2, -2.4, f"critical difference {difference:.2f}", ha="center", va="bottom")
