"""A site as the coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

KEY_LASTS = timedelta(days=730)  # then a site should get a new one


@dataclass(frozen=True)
class Member:
    """A site that was admitted. One that was dismissed is kept: runs know it by its name."""

    name: str
    node: int  # Flower's id of it
    key: str  # its public key, PEM
    dismissed: bool = False
    admitted: str = ""  # the date; version 0.1 did not note it

    def describe(self) -> str:
        if self.dismissed:
            return "dismissed"
        if not self.admitted:
            return "admitted; earlier versions did not note when"
        since = f"admitted on {self.admitted}"
        old = date.today() - date.fromisoformat(self.admitted) > KEY_LASTS
        return f"{since}, over two years ago: the site should get a new key (docs/FIELD.md)" if old else since
