"""One colour and marker for each strategy, in every picture and page.

A strategy looks the same whatever else is in the picture. Its variants, such as another selector or other
options, have its colour and another kind of line. All colours can be read on white and on a dark page.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

GREY, VERMILION, BLUE, GREEN = "#7A7A7A", "#D55E00", "#0072B2", "#009E73"
PINK, OCHRE, SKY, PURPLE = "#CC6FA3", "#B8860B", "#3A9BD9", "#7D62AD"
BROWN, CRIMSON, OLIVE, TEAL = "#9C5A2D", "#C2304E", "#7C8B1F", "#1F8F94"

# Markers as matplotlib names them. Strategies that are often compared have neither in common.
LOOKS: dict[str, tuple[str, str]] = {
    "random": (GREY, "o"),
    "logo": (VERMILION, "*"),
    "entropy": (BLUE, "s"),
    "coreset": (SKY, "D"),
    "badge": (GREEN, "^"),
    "gcnal": (PINK, "v"),
    "alfamix": (OCHRE, "P"),
    "margin": (OLIVE, "X"),
    "least_confidence": (TEAL, "v"),
    "typiclust": (SKY, "v"),
    "fedtypiclust": (PINK, "X"),
    "probcover": (BROWN, "D"),
    "maxherding": (PURPLE, "s"),
    "medoids": (TEAL, "D"),
    "auto": (BLUE, "P"),
    "ensemble_logit": (PURPLE, "^"),
    "ensemble_rank": (BROWN, "X"),
    "finetune": (TEAL, "s"),
    "ksas": (PURPLE, "P"),
    "kafal": (PURPLE, "P"),  # the method whose strategy is ksas
    "feal": (BROWN, "s"),
    "fairfal": (CRIMSON, "D"),
    "ifal": (TEAL, "X"),
    "tmfal": (OLIVE, "s"),
    "chase": (SKY, "X"),
    "bald": (PINK, "P"),
}
MARKERS = "osD^vPX*"
OTHERS = (CRIMSON, PURPLE, TEAL, BROWN)  # of strategies that others have written
DASHES = ((1.5, 1.8), (7, 2, 1.5, 2), (4, 1.5), (10, 3), (7, 2, 1.5, 2, 1.5, 2))  # of variants
LOCAL = (4.0, 2.2)  # where local-only models choose
GLOBAL_NAMES, LOCAL_NAMES = {"", "global"}, {"local"}

# What is no strategy, such as datasets and phases, has colours of its own: from dark to light.
TINTS = ("#30486B", "#56769B", "#8AA5BD", "#BFCDD6", "#A89B72", "#6F6544", "#D9CFA8")


class Style(NamedTuple):
    colour: str
    marker: str  # as matplotlib names it
    dash: tuple[float, ...]  # lengths of strokes and gaps; empty for a whole line


def style_of(label: str) -> Style:
    """Return how a strategy looks, by its name in tables, as in `logo` or `entropy (local)`."""
    name, _, rest = label.partition(" ")
    details = rest.removeprefix("(").removesuffix(")")
    colour, marker = LOOKS.get(name) or (OTHERS[hashed(name) % len(OTHERS)], MARKERS[hashed(name) // 7 % 8])
    if details in GLOBAL_NAMES:
        return Style(colour, marker, ())
    if details in LOCAL_NAMES:
        return Style(colour, marker, LOCAL)
    change = hashed(details)
    return Style(
        colour, MARKERS[(MARKERS.index(marker) + 1 + change % 7) % 8], DASHES[change // 7 % len(DASHES)]
    )


def hashed(text: str) -> int:
    return crc32(text.encode())
