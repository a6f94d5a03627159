"""The rounds of a site: which images the trainer wants labelled, until when, and how many are."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from fedactive.errors import unknown_name
from fedactive.sites.labels.database import Database, StoreError
from fedactive.sites.labels.images import IS_GONE

# How many people must answer about an image of round r. Where fewer can sign in than the overlap wants, all
# of them are enough: otherwise the round would never end.
ANSWERS_WANTED = "min(r.overlap, max(1, (SELECT count(*) FROM annotators WHERE token_hash IS NOT NULL)))"


@dataclass(frozen=True)
class Round:
    id: int
    run: str
    al_round: int
    strategy: str
    overlap: int  # how many people are to answer about each image, if there are so many
    planned: int | None  # how many rounds the run has, where that is known
    opened: datetime
    deadline: datetime | None
    closed: datetime | None
    level: float | None
    width: float | None

    @property
    def window(self) -> tuple[float, float] | None:
        """Return level and width in which the run sees deep pictures, if it states them."""
        return None if self.level is None or self.width is None else (self.level, self.width)

    @property
    def title(self) -> str:
        return f"Round {self.al_round}" + (f" of {self.planned}" if self.planned else "")


@dataclass(frozen=True)
class Counts:
    """How many images a round asked for; `requested` is the sum of the others.

    Images that are gone count as skipped.
    """

    requested: int
    labelled: int
    skipped: int
    flagged: int
    pending: int


@dataclass(frozen=True)
class Share:
    """One person's part in a round: the images that they answered about, and those that need their answer."""

    answered: int
    left: int


class Rounds:
    def __init__(self, database: Database) -> None:
        self.database = database

    def open(
        self,
        run: str,
        al_round: int,
        samples: Sequence[int],
        strategy: str,
        deadline: datetime | None,
        *,
        overlap: int = 1,
    ) -> None:
        """Ask for labels, of each image by `overlap` people. The same run and round again changes nothing."""
        if overlap < 1:
            raise StoreError(f"overlap: {overlap} was given, allowed is 1 or more")
        with self.database.writing():
            if self.find(run, al_round):
                return
            due = None if deadline is None else deadline.timestamp()
            round_id = self.database.connection.execute(
                "INSERT INTO rounds (run, al_round, strategy, overlap, opened, deadline)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (run, al_round, strategy, overlap, time.time(), due),
            ).lastrowid
            unique = dict.fromkeys(int(sample) for sample in samples)
            self.database.connection.executemany(
                "INSERT INTO requests VALUES (?, ?, ?)", [(round_id, k, s) for k, s in enumerate(unique)]
            )

    def set_deadline(self, run: str, al_round: int, deadline: datetime | None) -> None:
        """Change the deadline of a round: the plan may change while people label."""
        with self.database.writing():
            due = None if deadline is None else deadline.timestamp()
            self.database.connection.execute(
                "UPDATE rounds SET deadline = ? WHERE run = ? AND al_round = ? AND deadline IS NOT ?",
                (due, run, al_round, due),
            )

    def set_planned(self, run: str, planned: int) -> None:
        """Say how many rounds the run has. That may change even after its last one was labelled."""
        with self.database.writing():
            self.database.connection.execute(
                "UPDATE rounds SET planned = ? WHERE run = ? AND planned IS NOT ?", (planned, run, planned)
            )

    def set_window(self, run: str, window: tuple[float, float] | None) -> None:
        """Say in which window the run sees deep pictures, so that people can see them alike."""
        level, width = window or (None, None)
        with self.database.writing():
            self.database.connection.execute(
                "UPDATE rounds SET level = ?, width = ? WHERE run = ? AND (level IS NOT ? OR width IS NOT ?)",
                (level, width, run, level, width),
            )

    def close(self, run: str, al_round: int) -> None:
        """Close a round; what is unanswered can still be labelled, late. Closing again changes nothing."""
        with self.database.writing():
            if self.find(run, al_round) is None:
                raise StoreError(f"round {al_round} of run {run} was never opened here")
            self._close("run = ? AND al_round = ?", run, al_round)

    def close_run(self, run: str) -> int:
        """Close the open rounds of a run that was abandoned; return how many there were.

        Its latest round counts as its last one, until the run goes on and says otherwise.
        """
        with self.database.writing():
            known = {name for (name,) in self.database.rows("SELECT run FROM rounds")}
            if not known:
                raise StoreError("no run has asked for labels here yet")
            if run not in known:
                raise unknown_name("run", run, known)
            self.database.connection.execute(
                "UPDATE rounds SET planned = (SELECT max(al_round) FROM rounds WHERE run = ?) WHERE run = ?",
                (run, run),
            )
            return self._close("run = ?", run)

    def _close(self, which: str, *values: object) -> int:
        return self.database.connection.execute(
            "UPDATE rounds SET closed = ?, last_event = (SELECT coalesce(max(id), 0) FROM events)"
            f" WHERE {which} AND closed IS NULL",
            (time.time(), *values),
        ).rowcount

    def find_open(self) -> list[Round]:
        """List the open rounds, oldest first."""
        return self._read("SELECT * FROM rounds WHERE closed IS NULL ORDER BY id")

    def find(self, run: str, al_round: int) -> Round | None:
        return self._first("SELECT * FROM rounds WHERE run = ? AND al_round = ?", run, al_round)

    def find_by_id(self, round_id: int) -> Round | None:
        return self._first("SELECT * FROM rounds WHERE id = ?", round_id)

    def current(self) -> Round | None:
        """Return the youngest open round; if none is open, the one that was closed last."""
        order = "closed IS NULL DESC, last_event DESC, id DESC"
        return self._first(f"SELECT * FROM rounds ORDER BY {order} LIMIT 1")

    def find_for(self, sample: int) -> Round | None:
        """Return the round that asks for this image: the youngest open one, or else the youngest."""
        return self._first(
            "SELECT r.* FROM requests q JOIN rounds r ON r.id = q.round WHERE q.sample = ?"
            " ORDER BY r.closed IS NULL DESC, r.id DESC LIMIT 1",
            sample,
        )

    def _first(self, sql: str, *values: object) -> Round | None:
        return next(iter(self._read(sql, *values)), None)

    def _read(self, sql: str, *values: object) -> list[Round]:
        return [_round(row) for row in self.database.rows(sql, *values)]

    def counts(self, wanted: Round) -> Counts:
        rows = self.database.rows(
            f"SELECT CASE WHEN {IS_GONE.format('q')} THEN 'skip'"
            f" WHEN s.final OR s.answers >= {ANSWERS_WANTED} THEN s.outcome END, count(*)"
            " FROM rounds r JOIN requests q ON q.round = r.id LEFT JOIN standing s USING (sample)"
            " WHERE r.id = ? GROUP BY 1",
            wanted.id,
        )
        n: dict[str | None, int] = defaultdict(int, map(tuple, rows))
        requested, decided = sum(n.values()), n["label"] + n["skip"] + n["flag"]
        return Counts(requested, n["label"], n["skip"], n["flag"], requested - decided)

    def share(self, wanted: Round, annotator: int) -> Share:
        row = self.database.one(
            "SELECT count(a.action), coalesce(sum(a.action IS NULL AND coalesce(s.final, 0) = 0"
            f" AND coalesce(s.answers, 0) < {ANSWERS_WANTED} AND NOT {IS_GONE.format('q')}), 0)"
            " FROM rounds r JOIN requests q ON q.round = r.id LEFT JOIN standing s USING (sample)"
            " LEFT JOIN assignments a ON a.sample = q.sample AND a.annotator = ? WHERE r.id = ?",
            annotator,
            wanted.id,
        )
        return Share(*row)


def _round(row: sqlite3.Row) -> Round:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(Round)}
    for name in ("opened", "deadline", "closed"):
        if values[name] is not None:
            values[name] = datetime.fromtimestamp(values[name], UTC)
    return Round(**values)
