"""What pictures in files have in common: how they are saved, their ticks, and what is said below them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from fedactive.errors import ConfigurationError
from fedactive.files import write_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT: Any = {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "fedactive"}


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


def explain(figure: Figure, text: str) -> None:
    """Write below the picture what its lines and bands are."""
    letters = int(14 * figure.get_figwidth())  # of this size fit beside each other
    figure.supxlabel("\n".join(fill(line, letters) for line in text.splitlines()), fontsize=8.5, color="0.35")


def round_ticks(axes: Axes, *which: str) -> None:
    """Put the ticks of these axes, x or y, at round numbers: 1, 2 or 5 times a power of ten."""
    from matplotlib.ticker import MaxNLocator

    for name in which:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))


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
