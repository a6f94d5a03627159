"""A verdict as a PDF of pictures: mean ranks first, then a page of learning curves for each setting."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from fedactive.analysis.cd_diagram import draw_ranks, size_of
from fedactive.analysis.curve_pictures import draw_panels
from fedactive.analysis.curve_pictures import size_of as size_of_panels
from fedactive.analysis.pictures import TEXT
from fedactive.benchmark.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Page = tuple[tuple[float, float], Callable[["Figure"], None]]  # its size in inches, and who draws it


def as_pdf(verdict: Verdict) -> bytes:
    """Draw all pages; the same verdict gives the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure

    file = io.BytesIO()
    with matplotlib.rc_context(TEXT), PdfPages(file, metadata={"CreationDate": None}) as pdf:
        for size, draw in pages_of(verdict):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            pdf.savefig(figure)
    return file.getvalue()


def pages_of(verdict: Verdict) -> Iterator[Page]:
    if verdict.ranked and verdict.ranks.critical_difference > 0:
        title = f"suite {verdict.suite.name}"
        yield size_of(verdict.ranks), partial(draw_ranks, ranks=verdict.ranks, title=title)
    for setting, part in verdict.points.groupby("setting", sort=False):
        panels = {str(setting): curves_of(part)}
        yield size_of_panels(panels), partial(draw_panels, panels=panels)


def curves_of(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points of one setting as curves: labels are counted where the budget counts them."""
    counted = points["unit"] == "labels"
    return points.rename(columns={"method": "strategy"}).assign(labels=points["labelled"], counted=counted)
