"""Tables in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def print_whole(table: Table) -> None:
    """No name is cut, be it for a pipe or a narrow terminal, which may break lines itself."""
    console = Console()
    console.width = max(
        console.width, console.measure(table, options=console.options.update(width=1000)).maximum
    )
    console.print(table)
