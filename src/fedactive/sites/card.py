"""The card of the images that a run is about: from a plan's table [images], as a message, and back.

Coordinator and sites must mean the same images: their classes in order, size, channels and normalisation, and
the window of pictures of more than 8 bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fedactive.data.catalog import DatasetCard
from fedactive.errors import ConfigurationError, unknown_name

KEYS = ("classes", "size", "channels", "mean", "std")
OPTIONAL = ("window",)  # of a message: absent where a plan states none
NORMALISATION = 0.5  # mean and standard deviation of pixels about which nothing is known


def read_card(name: str, table: Mapping[str, Any]) -> DatasetCard:
    """Read and check the table [images]; `name` is what the plan calls these images."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):  # it begins the names of folders
        raise ConfigurationError("dataset", name, "1 to 60 letters (a to z), digits, - and _")
    for key in table:
        if key not in (*KEYS, *OPTIONAL):
            raise unknown_name("images", key, (*KEYS, *OPTIONAL))
    classes, size, channels = table.get("classes"), table.get("size"), table.get("channels", 1)
    if not isinstance(classes, list) or len(set(map(str, classes))) != len(classes) or len(classes) < 2:
        raise ConfigurationError("images.classes", classes, "a list of two or more different names")
    if type(size) is not int or not 4 <= size <= 1024:
        raise ConfigurationError("images.size", size, "a whole number of pixels from 4 to 1024")
    if channels not in (1, 3):
        raise ConfigurationError("images.channels", channels, "1 (grey) or 3 (colour)")
    numbers = {key: table.get(key, [NORMALISATION] * channels) for key in ("mean", "std")}
    for key, value in numbers.items():
        right = isinstance(value, list) and len(value) == channels and all(map(_is_number, value))
        if not right or (key == "std" and min(value) <= 0):
            raise ConfigurationError(f"images.{key}", value, "a list with one number per channel")
    window = table.get("window")
    if window is not None and not (
        isinstance(window, list) and len(window) == 2 and all(map(_is_number, window)) and window[1] > 0
    ):
        raise ConfigurationError("images.window", window, "[level, width], two numbers, the width above 0")
    return DatasetCard(
        name=name,
        description="images held by sites",
        classes=tuple(map(str, classes)),
        channels=channels,
        size=size,
        mean=tuple(map(float, numbers["mean"])),
        std=tuple(map(float, numbers["std"])),
        licence="",
        window=None if window is None else (float(window[0]), float(window[1])),
    )


def card_to_plain(card: DatasetCard) -> dict[str, Any]:
    """Return what a site has to know of the images, as values of a message."""
    stated = [name for name in OPTIONAL if getattr(card, name) is not None]
    return {name: getattr(card, name) for name in ("name", *KEYS, *stated)}


def card_from_plain(plain: Mapping[str, Any]) -> DatasetCard:
    """Read the card that a site was sent, with the same checks as one that a person wrote."""
    table = {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}
    return read_card(str(table.pop("name")), table)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
