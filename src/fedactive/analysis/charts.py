"""Charts for the report: bars and heat maps as SVG, images as PNG in a data URI; it needs no network."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

import numpy as np
from numpy.typing import NDArray

from fedactive.analysis.palette import TINTS
from fedactive.analysis.svg import NARROW, in_both_widths, short_names, svg, text

WIDEST = 620  # of a heat map that is made smaller to fit a narrow page; larger ones are scrolled
Bars = Mapping[str, Sequence[float]]  # by name, the lengths of their parts


def tint(k: int) -> str:
    return TINTS[k % len(TINTS)]


def bar_chart(bars: Bars, phases: Sequence[str], title: str, unit: str) -> str:
    """Draw stacked horizontal bars with their totals, in both widths; the key is above them."""
    draw = partial(_bars, bars, phases, title, unit)
    return in_both_widths(draw(840, 3), draw(NARROW, 2))


def _bars(bars: Bars, phases: Sequence[str], title: str, unit: str, width: int, columns: int) -> str:
    """Draw bars with their names on the left, or above them if the chart is narrow."""
    narrow = width == NARROW
    key_height = 22 * -(-len(phases) // columns) + 10
    names = short_names(list(bars), int((width if narrow else width / 2 - 20) / 6.8))
    left, step, above = (0.0, 46, 16) if narrow else (20 + 6.8 * max(map(len, names)), 30, 0)
    longest = max(sum(values) for values in bars.values()) or 1.0
    scale = (width - left - 80) / longest
    parts = []
    for k, phase in enumerate(phases):
        x0, y = 6 + (250 if not narrow else 200) * (k % columns), 6 + 22 * (k // columns)
        parts.append(f'<rect x="{x0}" y="{y}" width="12" height="12" rx="2" fill="{tint(k)}"/>')
        parts.append(text(x0 + 18, y + 10.5, phase))
    for row, (name, values) in enumerate(zip(names, bars.values(), strict=True)):
        x, y = float(left), key_height + row * step + above
        place = (0.0, y - 4, name, "start") if narrow else (left - 10, y + 15, name, "end")
        parts.append(text(*place, "name"))
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
    kind = "heat" if width <= WIDEST else "heat large"
    return svg(round(width), round(height), title, description, "".join(parts), kind)


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
