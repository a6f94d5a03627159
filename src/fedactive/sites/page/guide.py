"""What the classes mean: their groups, definitions and example pictures, for people who label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Picture = tuple[bytes, str]  # a PNG or JPEG file, and its media type


@dataclass(frozen=True)
class AboutClass:
    """What is said about one class; all of it may be missing."""

    group: str = ""
    definition: str = ""
    examples: tuple[Picture, ...] = ()


Guide = tuple[AboutClass, ...]  # one for each class, or none at all


def by_group(classes: Sequence[tuple[str, str]], guide: Guide) -> dict[str, list[tuple[int, str, str]]]:
    """Return (label, key, name) of the classes by group, in the order in which groups are first named."""
    groups: dict[str, list[tuple[int, str, str]]] = {}
    for label, (key, name) in enumerate(classes):
        group = guide[label].group if guide else ""
        groups.setdefault(group, []).append((label, key, name))
    return groups
