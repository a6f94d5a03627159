"""The parts of the report, one file each: tables of runs become values and pictures for the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Values = dict[str, Any]  # what the template is given


class TableCell(NamedTuple):
    value: Any  # to sort by: a number or text
    text: object
    kind: str = ""  # its CSS class


class Sortable(NamedTuple):
    """A table that readers of the page can sort by any column."""

    columns: list[str]  # headings; the first is above the rows' names
    rows: Sequence[tuple[str, list[TableCell]]]  # a name may be a link
