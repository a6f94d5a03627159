"""Line charts for the report as SVG: a named line with a band for each strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedactive.analysis.curves import steps_grow
from fedactive.analysis.palette import style_of
from fedactive.analysis.pictures import spread
from fedactive.analysis.svg import NARROW, in_both_widths, short_names, svg, text, ticks

# Outlines around the origin, by matplotlib's names of markers.
SHAPES = {
    "o": "M-3.6,0a3.6,3.6 0 1,0 7.2,0a3.6,3.6 0 1,0 -7.2,0Z",
    "s": "M-3.3,-3.3H3.3V3.3H-3.3Z",
    "D": "M0,-4.7L4.7,0L0,4.7L-4.7,0Z",
    "^": "M0,-4.4L4.3,3.4H-4.3Z",
    "v": "M0,4.4L4.3,-3.4H-4.3Z",
    "P": "M-1.5,-4.4H1.5V-1.5H4.4V1.5H1.5V4.4H-1.5V1.5H-4.4V-1.5H-1.5Z",
    "X": "M-4,-2L-2,-4L0,-2L2,-4L4,-2L2,0L4,2L2,4L0,2L-2,4L-4,2L-2,0Z",
    "*": "M0,-5.4L1.4,-1.9L5.1,-1.7L2.3,0.7L3.2,4.4L0,2.4L-3.2,4.4L-2.3,0.7L-5.1,-1.7L-1.4,-1.9Z",
}
NAME_WIDTH, NAME_HEIGHT = 7.5, 16  # of a letter in the name of a line
NOTE_HEIGHT = 18


@dataclass(frozen=True)
class Line:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Labels(NamedTuple):
    x: str
    y: str
    note: str
    digits: int  # of last values


class Frame(NamedTuple):
    """Where the lines are drawn, in the units of the SVG."""

    left: float
    right: float
    top: float
    bottom: float
    px: Callable[[float], float]
    py: Callable[[float], float]

    def path(self, x: Sequence[float], y: Sequence[float]) -> str:
        return "L".join(f"{self.px(a):.1f},{self.py(b):.1f}" for a, b in zip(x, y, strict=True))


def line_chart(
    lines: Sequence[Line],
    title: str,
    x_label: str,
    y_label: str,
    digits: int = 1,
    size: tuple[int, int] = (840, 430),
    note: str = "",
) -> str:
    """Draw lines with bands, in both widths; each has its name and last value at its end, or below.

    The note, which says what lines and bands are, stands below.
    """
    ordered = sorted(lines, key=lambda line: -line.y[-1])
    last = ", ".join(f"{line.name} {line.y[-1]:.{digits}f}" for line in ordered)
    description = f"{y_label} over {x_label}. At the end: {last}. {note}".strip()
    labels = Labels(x_label, y_label, note, digits)
    drawn = (_wide(ordered, labels, size), _narrow(ordered, labels))
    return in_both_widths(*(svg(w, h, title, description, body, "lines") for w, h, body in drawn))


def _wide(lines: Sequence[Line], labels: Labels, size: tuple[int, int]) -> tuple[float, float, str]:
    """Draw the names at the ends of the lines, as far apart as they need."""
    width, height = size
    height = max(height, 68 + NAME_HEIGHT * len(lines))
    most = int((width / 2 - 30) / NAME_WIDTH) - labels.digits - 4  # letters: names get half of the chart
    names = short_names([line.name for line in lines], most)
    right = width - (30 + NAME_WIDTH * (max(map(len, names)) + labels.digits + 4))
    frame, axes = _axes(lines, labels, (46, right, 26, height - 42))
    ends = np.array([-frame.py(line.y[-1]) for line in lines])
    heights = -spread(ends, gap=NAME_HEIGHT, floor=-frame.bottom)
    drawn = []
    for line, name, h in zip(lines, names, heights, strict=True):
        end, x = frame.px(line.x[-1]), right + 24
        leader = f'<path class="leader" d="M{end + 6:.1f},{frame.py(line.y[-1]):.1f}L{x - 8:.1f},{h:.1f}"/>'
        drawn.append(_line(frame, line, leader + _name(line, name, labels.digits, x, h)))
    return width, height + NOTE_HEIGHT, axes + "".join(drawn)


def _narrow(lines: Sequence[Line], labels: Labels) -> tuple[float, float, str]:
    """Draw the names below the lines."""
    bottom, first = 250, 250 + 64 + NOTE_HEIGHT
    names = short_names([line.name for line in lines], int((NARROW - 30) / NAME_WIDTH) - labels.digits - 4)
    frame, axes = _axes(lines, labels, (46, NARROW - 12, 26, bottom))
    drawn = [
        _line(frame, line, _name(line, name, labels.digits, 12, first + NAME_HEIGHT * row))
        for row, (line, name) in enumerate(zip(lines, names, strict=True))
    ]
    return NARROW, first + NAME_HEIGHT * len(lines), axes + "".join(drawn)


def _axes(lines: Sequence[Line], labels: Labels, box: tuple[float, float, float, float]) -> tuple[Frame, str]:
    """Draw axes with round ticks; where steps grow much, x is logarithmic and has a tick at each point."""
    left, right, top, bottom = box
    x0, x1 = min(min(line.x) for line in lines), max(max(line.x) for line in lines)
    x1 += x1 == x0  # with a single point, the axis still needs a width
    points = max((line.x for line in lines), key=len)
    grows = steps_grow(pd.Series(points)) and x0 > 0
    x_ticks = list(points) if grows else [x for x in ticks(x0, x1, 6) if x0 - 1e-9 <= x <= x1 + 1e-9]
    y_ticks = ticks(min(min(line.low) for line in lines), max(max(line.high) for line in lines))
    y0, y1 = y_ticks[0], y_ticks[-1]

    def px(x: float) -> float:
        share = np.log(x / x0) / np.log(x1 / x0) if grows else (x - x0) / (x1 - x0)
        return float(left + share * (right - left))

    def py(y: float) -> float:
        return bottom - (y - y0) / (y1 - y0) * (bottom - top)

    parts = [text(left - 38, 12, labels.y, kind="axis")]
    places = max(0, -int(np.floor(np.log10(y_ticks[1] - y_ticks[0]) + 1e-9)))  # decimals of ticks
    for y in y_ticks:
        parts.append(f'<path class="grid" d="M{left},{py(y):.1f}H{right:.1f}"/>')
        parts.append(text(left - 7, py(y) + 4, f"{y:.{places}f}", "end"))
    parts += [text(px(x), bottom + 18, f"{x:g}", "middle") for x in x_ticks]
    parts.append(text((left + right) / 2, bottom + 36, labels.x, "middle", "axis"))
    parts.append(text(left - 38, bottom + 36 + NOTE_HEIGHT, labels.note, kind="axis"))
    return Frame(left, right, top, bottom, px, py), "".join(parts)


def _line(frame: Frame, line: Line, name: str) -> str:
    look = style_of(line.name)
    dash = " ".join(f"{length:g}" for length in look.dash) or "none"
    band = f"M{frame.path(line.x, line.high)}L{frame.path(line.x[::-1], line.low[::-1])}Z"
    dots = "".join(
        f'<path d="{SHAPES[look.marker]}" transform="translate({frame.px(x):.1f},{frame.py(y):.1f})"/>'
        for x, y in zip(line.x, line.y, strict=True)
    )
    return (
        f'<g class="line" color="{look.colour}"><title>{escape(line.name)}</title>'
        f'<path class="band" d="{band}"/>'
        f'<path class="stroke" d="M{frame.path(line.x, line.y)}" stroke-dasharray="{dash}"/>{dots}{name}</g>'
    )


def _name(line: Line, name: str, digits: int, x: float, y: float) -> str:
    shape = SHAPES[style_of(line.name).marker]
    return f'<path d="{shape}" transform="translate({x - 2:.1f},{y:.1f})"/>' + text(
        x + 6, y + 4, f"{name}  {line.y[-1]:.{digits}f}", kind="name"
    )
