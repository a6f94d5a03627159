"""Charts for the report: functions that return SVG, or PNG as a data URI, so that the page needs no network.

Text and grid take their colours from the page (currentColor and CSS variables), so that charts follow its
light or dark mode. Lines and bars have a palette that is safe for colour-blind readers; lines also have
markers.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from fedactive.analysis.curves import percents
from fedactive.analysis.palette import TINTS, style_of
from fedactive.analysis.pictures import spread

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


@dataclass(frozen=True)
class Line:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers that cover the range, in steps of 1, 2 or 5 times a power of ten."""
    if high - low < 1e-6:  # one value: with less room around it, the ticks would have too many digits
        room = 0.05 * max(abs(high), 0.02)
        low, high = low - room, high + room
    span = high - low
    power = 10.0 ** np.floor(np.log10(span / about))
    step = next(s * power for s in (1, 2, 5, 10) if span / (s * power) <= about + 1e-9)
    first, last = int(np.floor(low / step + 1e-9)), int(np.ceil(high / step - 1e-9))
    return [k * step for k in range(first, max(last, first + 1) + 1)]


def svg(width: float, height: float, title: str, description: str, body: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>'
        f"<desc>{escape(description)}</desc>{body}</svg>"
    )


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'


def line_chart(
    lines: Sequence[Line],
    title: str,
    x_label: str,
    y_label: str,
    digits: int = 1,
    size: tuple[int, int] = (840, 430),
) -> str:
    """Draw lines with bands; each has its name and last value at its end."""
    width, height = size
    height = max(height, 68 + NAME_HEIGHT * len(lines))
    most = int((width / 2 - 30) / NAME_WIDTH) - digits - 4  # letters: names get half of the chart
    whole = [line.name for line in lines]
    names = dict(zip(whole, short_names(whole, most), strict=True))
    longest = max(map(len, names.values())) + digits + 4
    left, top, right, bottom = 46, 26, 30 + NAME_WIDTH * longest, height - 42
    x0, x1 = min(min(line.x) for line in lines), max(max(line.x) for line in lines)
    x1 += x1 == x0  # with a single point, the axis still needs a width
    y_ticks = ticks(min(min(line.low) for line in lines), max(max(line.high) for line in lines))
    y0, y1 = y_ticks[0], y_ticks[-1]

    points = max((line.x for line in lines), key=len)
    if len(points) <= min(8, (width - right - left) / 30):  # more would be too close together
        x_ticks = [(x, p.rstrip("%")) for x, p in zip(points, percents(np.array(points)), strict=True)]
    else:
        x_ticks = [(x, f"{x:g}") for x in ticks(x0, x1, 6) if x0 - 1e-9 <= x <= x1 + 1e-9]

    def px(x: float) -> float:
        return left + (x - x0) / (x1 - x0) * (width - right - left)

    def py(y: float) -> float:
        return bottom - (y - y0) / (y1 - y0) * (bottom - top)

    def path(x: Sequence[float], y: Sequence[float]) -> str:
        return "L".join(f"{px(a):.1f},{py(b):.1f}" for a, b in zip(x, y, strict=True))

    parts = [text(left - 38, 12, y_label, kind="axis")]
    places = max(0, -int(np.floor(np.log10(y_ticks[1] - y_ticks[0]) + 1e-9)))  # decimals of ticks
    for y in y_ticks:
        parts.append(f'<path class="grid" d="M{left},{py(y):.1f}H{width - right:.1f}"/>')
        parts.append(text(left - 7, py(y) + 4, f"{y:.{places}f}", "end"))
    parts += [text(px(x), bottom + 18, name, "middle") for x, name in x_ticks]
    parts.append(text((left + width - right) / 2, height - 6, x_label, "middle", "axis"))
    ordered = sorted(lines, key=lambda line: -line.y[-1])
    heights = spread(np.array([-py(line.y[-1]) for line in ordered]), gap=NAME_HEIGHT, floor=-bottom)
    for line, h in zip(ordered, -heights, strict=True):
        band = f"M{path(line.x, line.high)}L{path(line.x[::-1], line.low[::-1])}Z"
        look = style_of(line.name)
        shape, dash = SHAPES[look.marker], " ".join(f"{length:g}" for length in look.dash) or "none"
        dots = "".join(
            f'<path d="{shape}" transform="translate({px(x):.1f},{py(y):.1f})"/>'
            for x, y in zip(line.x, line.y, strict=True)
        )
        end, name_x = px(line.x[-1]), width - right + 24
        parts.append(
            f'<g class="line" color="{look.colour}"><title>{escape(line.name)}</title>'
            f'<path class="band" d="{band}"/><path class="stroke" d="M{path(line.x, line.y)}" '
            f'stroke-dasharray="{dash}"/>{dots}'
            f'<path class="leader" d="M{end + 6:.1f},{py(line.y[-1]):.1f}L{name_x - 8:.1f},{h:.1f}"/>'
            f'<path d="{shape}" transform="translate({name_x - 2:.1f},{h:.1f})"/>'
            f"{text(name_x + 6, h + 4, f'{names[line.name]}  {line.y[-1]:.{digits}f}', kind='name')}</g>"
        )
    last = ", ".join(f"{line.name} {line.y[-1]:.{digits}f}" for line in ordered)
    description = f"{y_label} over {x_label}. At the end: {last}."
    return svg(width, height, title, description, "".join(parts), "lines")


def tint(k: int) -> str:
    return TINTS[k % len(TINTS)]


def bar_chart(bars: dict[str, Sequence[float]], phases: Sequence[str], title: str, unit: str) -> str:
    """Draw stacked horizontal bars, one for each name, with their totals; the key is above them."""
    width, key_height, step = 840, 22 * ((len(phases) + 2) // 3) + 10, 30
    names = short_names(list(bars), int((width / 2 - 20) / 6.8))
    left = 20 + 6.8 * max(map(len, names))
    longest = max(sum(values) for values in bars.values()) or 1.0
    scale = (width - left - 80) / longest
    parts = []
    for k, phase in enumerate(phases):
        x0, y = 6 + 250 * (k % 3), 6 + 22 * (k // 3)
        parts.append(f'<rect x="{x0}" y="{y}" width="12" height="12" rx="2" fill="{tint(k)}"/>')
        parts.append(text(x0 + 18, y + 10.5, phase))
    for row, (name, values) in enumerate(zip(names, bars.values(), strict=True)):
        x, y = float(left), key_height + row * step
        parts.append(text(left - 10, y + 15, name, "end", "name"))
        for k, value in enumerate(values):
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.1f}" height="20" fill="{tint(k)}">'
                f"<title>{escape(phases[k])}: {value:.3g} {unit}</title></rect>"
            )
            x += value * scale
        parts.append(text(x + 8, y + 15, f"{sum(values):.3g} {unit}"))
    totals = ", ".join(f"{name} {sum(values):.3g} {unit}" for name, values in bars.items())
    return svg(width, key_height + step * len(bars), title, totals, "".join(parts), "bars")


def heat_map(counts: NDArray[np.integer], classes: Sequence[str], title: str, most: int) -> str:
    """Draw counts by client (down) and class (across); `most` is the count of the darkest cell."""
    rows, columns = counts.shape
    names = short_names(classes)
    # Names of more than four letters are wider than their column and are slanted. A letter is about 6 wide.
    room = 6 * max(map(len, names)) * np.sqrt(0.5) if max(map(len, names)) > 4 else 0
    cell, left, top = 30, 40, 30 + room
    parts = [text(0, top - 4, "client"), text(left + cell * columns / 2, 12, "class", "middle")]
    for c, name in enumerate(names):
        x, y = left + cell * (c + 0.5), top - 4
        slanted = f'<g transform="rotate(-45 {x} {y:.1f})">{text(x - 2, y, name)}</g>'
        parts.append(slanted if room else text(x, y, name, "middle"))
    for k in range(rows):
        y = round(top) + 22 * k
        parts.append(text(left - 8, y + 15, str(k), "end"))
        for c in range(columns):
            n, share = int(counts[k, c]), float(np.sqrt(counts[k, c] / max(most, 1)))
            kind = "cell dark" if share > 0.6 else "cell"
            parts.append(
                f'<rect x="{left + cell * c}" y="{y}" width="29" height="21" fill-opacity="{share:.2f}"/>'
                + (text(left + cell * (c + 0.5), y + 15, str(n), "middle", kind) if n else "")
            )
    description = f"Labels per client (rows) and class (columns: {', '.join(classes)})."
    width, height = left + cell * columns + 2 + room, top + 22 * rows + 2
    return svg(round(width), round(height), title, description, "".join(parts), "heat")


def short_names(names: Sequence[str], longest: int = 18) -> list[str]:
    """Shorten names; number them where they would become the same."""

    def cut(name: str) -> str:
        return name if len(name) <= longest else name[: longest - 1].rstrip(" ,-") + "…"

    short = [cut(name) for name in names]
    return short if len(set(short)) == len(short) else [cut(f"{c} {name}") for c, name in enumerate(names)]


def png(image: NDArray[np.uint8]) -> str:
    """Encode an image of shape (channels, height, width), grey or RGB, as a data URI."""
    channels, height, width = image.shape
    rows = image.transpose(1, 2, 0).reshape(height, width * channels)
    raw = np.pad(rows, ((0, 0), (1, 0))).tobytes()  # a row begins with its filter; 0 is none

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()
