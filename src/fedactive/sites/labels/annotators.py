"""The people who may label at a site, the personal tokens they sign in with, and their sessions."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Literal

from fedactive.sites.labels.database import Database, SenselessError, StoreError
from fedactive.sites.names import check_name

Role = Literal["elsewhere", "annotator", "lead", "removed"]  # schema.sql says which is which
Part = Literal["annotator", "reviewer", "lead"]  # what somebody who can sign in may do

SECONDS_SIGNED_IN = 12 * 3600  # a working day
SECONDS_OF_CLOCK_DRIFT = 300
SECONDS_KNOWN = 30 * 86_400  # of an ended session: a clock that was wrong for a day ends nobody's


@dataclass(frozen=True)
class Annotator:
    id: int
    name: str
    token_hash: str | None  # None: cannot sign in
    role: Role
    reviews: int = 0

    @property
    def decides(self) -> bool:
        """May this person decide disagreements?"""
        return self.role == "lead" or bool(self.reviews)

    @property
    def part(self) -> Part | None:
        """Return what this person may do; None if they cannot sign in."""
        if self.token_hash is None:
            return None
        return "lead" if self.role == "lead" else "reviewer" if self.reviews else "annotator"


class Annotators:
    def __init__(self, database: Database) -> None:
        self.database = database

    def add(self, name: str, *, lead: bool = False, reviewer: bool = False) -> str:
        """Add a person, or let one sign in who could not; return the token, which is stored as a hash."""
        checked = check_name(name)
        with self.database.writing():
            known = self.find(checked)
            if known is not None and known.token_hash is not None:
                raise StoreError(f"there is already an annotator {checked!r}; --renew gives them a new token")
            return self._give_token(checked, lead, reviewer)

    def renew(self, name: str, *, lead: bool = False, reviewer: bool = False) -> str:
        """Return a new token in place of a lost one, which ends with its sessions. A lead stays a lead."""
        with self.database.writing():
            known = self._existing(name)
            return self._give_token(known.name, lead or known.role == "lead", reviewer or bool(known.reviews))

    def set_part(self, name: str, part: Part) -> None:
        """Let somebody who can sign in do more, or less, from now on."""
        with self.database.writing():
            known = self._existing(name)
            if known.part is None:
                raise SenselessError(f"{name} cannot sign in here")
            self.database.connection.execute(
                "UPDATE annotators SET role = ?, reviews = ? WHERE id = ?",
                ("lead" if part == "lead" else "annotator", part == "reviewer", known.id),
            )

    def remove(self, name: str) -> None:
        """End sign-in and import under this name; what the person answered stays."""
        with self.database.writing():
            known = self._existing(name)
            execute = self.database.connection.execute
            execute(
                "UPDATE annotators SET token_hash = NULL, role = 'removed', reviews = 0 WHERE id = ?",
                (known.id,),
            )
            execute("DELETE FROM sessions WHERE annotator = ?", (known.id,))
            execute("DELETE FROM assignments WHERE annotator = ? AND action IS NULL", (known.id,))

    def all(self) -> list[Annotator]:
        return [Annotator(*row) for row in self.database.rows("SELECT * FROM annotators ORDER BY name")]

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

    def _give_token(self, name: str, lead: bool, reviewer: bool) -> str:
        token, execute = secrets.token_urlsafe(24), self.database.connection.execute
        execute(
            "INSERT INTO annotators (name, token_hash, role, reviews) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET"
            " token_hash = excluded.token_hash, role = excluded.role, reviews = excluded.reviews",
            (name, _hash(token), "lead" if lead else "annotator", reviewer),
        )
        execute("DELETE FROM sessions WHERE annotator = (SELECT id FROM annotators WHERE name = ?)", (name,))
        return token

    # --- sessions

    def begin_session(self, annotator: Annotator) -> str:
        """Begin a session, and return its key, which is stored as a hash."""
        key, now = secrets.token_urlsafe(32), time.time()
        with self.database.writing():
            execute = self.database.connection.execute
            execute("DELETE FROM sessions WHERE began < ?", (now - SECONDS_KNOWN,))
            execute("INSERT INTO sessions VALUES (?, ?, ?)", (_hash(key), annotator.id, now))
        return key

    def find_by_session(self, key: str) -> Annotator | None:
        now = time.time()
        row = self.database.one(
            "SELECT a.* FROM sessions s JOIN annotators a ON a.id = s.annotator"
            " WHERE s.key_hash = ? AND s.began BETWEEN ? AND ?",
            *(_hash(key), now - SECONDS_SIGNED_IN, now + SECONDS_OF_CLOCK_DRIFT),
        )
        return Annotator(*row) if row else None

    def end_session(self, key: str) -> None:
        with self.database.writing():
            self.database.connection.execute("DELETE FROM sessions WHERE key_hash = ?", (_hash(key),))


def _hash(token: str) -> str:
    # Tokens and keys are 192 random bits or more: nobody can guess them from a hash, however fast that is.
    return hashlib.sha256(token.strip().encode()).hexdigest()
