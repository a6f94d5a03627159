"""A site as the coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from fedactive.errors import RunError
from fedactive.files import RESTORE

KEY_LASTS = timedelta(days=730)  # then a site should get a new one


@dataclass(frozen=True)
class Member:
    """A site that was admitted. One that was dismissed is kept: runs know it by its name."""

    name: str
    node: int  # Flower's id of it
    key: str  # its public key, PEM
    dismissed: bool = False
    admitted: str = ""  # the date; version 0.1 did not note it

    @classmethod
    def from_plain(cls, values: object, file: Path) -> Member:
        """Make one of what stands in `file`; RunError if that cannot be."""
        try:
            member = cls(**values)  # type: ignore[arg-type]
            date.fromisoformat(member.admitted or "2000-01-01")
            if any(type(value) is not type(ANYBODY[name]) for name, value in vars(member).items()):
                raise TypeError
            return member
        except (TypeError, ValueError):
            raise RunError(f"{file} is damaged; {RESTORE}") from None

    def describe(self) -> str:
        if self.dismissed:
            return "dismissed"
        if not self.admitted:
            return "admitted; earlier versions did not note when"
        since = f"admitted on {self.admitted}"
        old = date.today() - date.fromisoformat(self.admitted) > KEY_LASTS
        return f"{since}, over two years ago: the site should get a new key (docs/FIELD.md)" if old else since


ANYBODY = vars(Member("", 0, ""))  # of what type each field is
