"""The parts of the report, one file each: from tables of runs to the values and pictures of its template."""

from __future__ import annotations

from typing import Any, NamedTuple

Values = dict[str, Any]  # what the template is given


class TableCell(NamedTuple):
    value: float  # to sort by
    text: object
    kind: str = ""  # its CSS class


class Sortable(NamedTuple):
    """A table that the page's reader can sort by any of its columns."""

    columns: list[str]  # the first is that of the names
    rows: list[tuple[str, list[TableCell]]]
