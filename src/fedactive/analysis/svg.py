"""What charts of the report are made of: SVG and its texts, round ticks, short names.

Text and grid take their colours from the page (currentColor and CSS variables), so that charts follow its
light or dark mode. A chart comes twice, wide and narrow; the page shows the one that fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

NARROW = 400  # width of a narrow chart, about that of a telephone's screen


def in_both_widths(wide: str, narrow: str) -> str:
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


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


def short_names(names: Sequence[str], longest: int = 18) -> list[str]:
    """Shorten names; number them where they would become the same."""

    def cut(name: str) -> str:
        return name if len(name) <= longest else name[: longest - 1].rstrip(" ,-") + "…"

    short = [cut(name) for name in names]
    return short if len(set(short)) == len(short) else [cut(f"{c} {name}") for c, name in enumerate(names)]
