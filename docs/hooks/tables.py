"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table; nothing if it has no rows."""
    lines = ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(heading)} |", "|" + "---|" * len(heading), *lines]) + "\n"


def cell(value: object) -> str:
    """Write a cell: line breaks would end it, and so would bars, except in code."""
    parts = " ".join(str(value).split()).split("`")
    return "`".join(part if i % 2 else part.replace("|", "\\|") for i, part in enumerate(parts))


def code(value: object) -> str:
    """Write a value as code; nothing for an empty one."""
    return f"`{value}`" if str(value) else ""
