"""The people who may label at a site, and the personal tokens they sign in with."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

from fedactive.sites.labels.database import Database, StoreError
from fedactive.sites.names import check_name

Role = Literal["elsewhere", "annotator", "lead", "removed"]  # schema.sql says which is which


@dataclass(frozen=True)
class Annotator:
    id: int
    name: str
    token_hash: str | None  # None: cannot sign in
    role: Role


class Annotators:
    def __init__(self, database: Database) -> None:
        self.database = database

    def add(self, name: str, *, lead: bool = False) -> str:
        """Add a person, or let one sign in who could not; return the token, which is stored as a hash."""
        checked = check_name(name)
        with self.database.writing():
            known = self.find(checked)
            if known is not None and known.token_hash is not None:
                raise StoreError(f"there is already an annotator {checked!r}; --renew gives them a new token")
            return self._give_token(checked, "lead" if lead else "annotator")

    def renew(self, name: str, *, lead: bool = False) -> str:
        """Return a new token in place of a lost one, which ends with its sessions. A lead stays a lead."""
        with self.database.writing():
            known = self._existing(name)
            return self._give_token(known.name, "lead" if lead or known.role == "lead" else "annotator")

    def remove(self, name: str) -> None:
        """End sign-in and import under this name; what the person answered stays."""
        with self.database.writing():
            known = self._existing(name)
            execute = self.database.connection.execute
            execute("UPDATE annotators SET token_hash = NULL, role = 'removed' WHERE id = ?", (known.id,))
            execute("DELETE FROM assignments WHERE annotator = ? AND action IS NULL", (known.id,))

    def all(self) -> list[Annotator]:
        return [Annotator(*row) for row in self.database.rows("SELECT * FROM annotators ORDER BY name")]

    def find_by_id(self, annotator: int) -> Annotator | None:
        return self._find("id = ?", annotator)

    def find_by_token(self, token: str) -> Annotator | None:
        return self._find("token_hash = ?", _hash(token))

    def find(self, name: str) -> Annotator | None:
        return self._find("name = ?", name)

    def _find(self, where: str, value: object) -> Annotator | None:
        row = self.database.one(f"SELECT * FROM annotators WHERE {where}", value)
        return Annotator(*row) if row else None

    def find_or_add(self, name: str) -> Annotator:
        """Return the person whose answers are imported; a new one cannot sign in until they are added."""
        checked = check_name(name)
        with self.database.writing():
            self.database.connection.execute("INSERT OR IGNORE INTO annotators (name) VALUES (?)", (checked,))
        return self._existing(checked)

    def _existing(self, name: str) -> Annotator:
        known = self.find(name)
        if known is None:
            names = ", ".join(annotator.name for annotator in self.all()) or "nobody yet"
            raise StoreError(f"there is no annotator {name!r}; there is {names}")
        return known

    def _give_token(self, name: str, role: Role) -> str:
        token = secrets.token_urlsafe(24)
        self.database.connection.execute(
            "INSERT INTO annotators (name, token_hash, role) VALUES (?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET token_hash = excluded.token_hash, role = excluded.role",
            (name, _hash(token), role),
        )
        return token


def _hash(token: str) -> str:
    # The token is 192 random bits: nobody can guess it from its hash, however fast hashing is.
    return hashlib.sha256(token.strip().encode()).hexdigest()
