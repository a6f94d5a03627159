"""Names of people and sites: they are shown on terminals and pages, and some come from strangers."""

from __future__ import annotations

from fedactive.errors import UserError

LONGEST_NAME = 60


def check_name(name: str) -> str:
    """Return the name without blanks around it; UserError if it is empty, too long or not printable."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UserError(f"{name!r} is not a name: use 1 to {LONGEST_NAME} printable characters")
    return name
