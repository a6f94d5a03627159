"""Answers that were given elsewhere: recorded in short steps, and taken back as a whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.answers import STANDS, Answers, Event
from fedactive.sites.labels.database import Database, SenselessError, StoreError

# An import has the store for a step at a time, and lets others have it as long: people label meanwhile.
STEP = 50


@dataclass(frozen=True)
class Import:
    id: int
    time: datetime
    by: str
    answers: int
    undone: bool


class Imports:
    def __init__(self, database: Database, answers: Answers) -> None:
        self.database = database
        self.answers = answers

    def record(self, events: Sequence[Event], by: Annotator) -> None:
        """Record an import. One that is interrupted keeps what it has; the same file brings the rest."""
        if not events:
            return
        with self.database.writing():
            number = self.database.connection.execute(
                "INSERT INTO imports (time, annotator) VALUES (?, ?)", (time.time(), by.id)
            ).lastrowid
        try:
            self._append([replace(event, imported=number) for event in events])
        except StoreError as error:
            raise StoreError(f"the import was interrupted, give the same file again: {error}") from None

    def undo(self, number: int) -> int:
        """Take back what this import brought and nobody has taken back; return how many answers."""
        if self.database.one("SELECT 1 FROM imports WHERE id = ?", number) is None:
            raise SenselessError(f"there is no import {number}")
        standing = self.answers.events(f"import = ? AND {STANDS} ORDER BY id", number)
        self._append([Event(one.annotator, one.sample, "undo", undoes=one.id) for one in standing])
        with self.database.writing():
            self.database.connection.execute(
                "UPDATE imports SET undone = ? WHERE id = ? AND undone IS NULL", (time.time(), number)
            )
        return len(standing)

    def latest(self, count: int) -> list[Import]:
        rows = self.database.rows(
            "SELECT i.id, i.time, p.name, (SELECT count(*) FROM events e WHERE e.import = i.id),"
            " i.undone IS NOT NULL FROM imports i JOIN annotators p ON p.id = i.annotator"
            " ORDER BY i.id DESC LIMIT ?",
            count,
        )
        return [
            Import(number, datetime.fromtimestamp(at, UTC), by, answers, bool(undone))
            for number, at, by, answers, undone in rows
        ]

    def _append(self, events: Sequence[Event]) -> None:
        for start in range(0, len(events), STEP):
            began = time.monotonic()
            self.answers.append_all(events[start : start + STEP])
            time.sleep(time.monotonic() - began)
