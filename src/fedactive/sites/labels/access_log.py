"""The access log of a site: who signed in or failed to, saw and answered what, and when."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from fedactive.sites.labels.annotators import Annotator
from fedactive.sites.labels.database import Database

Deed = Literal[
    "signed in",
    "failed to sign in",
    "signed out",
    "saw image",
    "saw guess",
    "exported answers",
    "imported answers",
    "undid import",
    "exported log",
    "added person",
    "changed role",
    "renewed token",
    "removed person",
    "set gold question",
    "removed gold question",
]
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how one begins
COLUMNS = ("time", "person", "address", "deed", "image", "answer", "about")


class AccessLog:
    """Answers are in the log of events, all else in a table of its own; both only grow."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def record(
        self,
        deed: Deed,
        who: Annotator | None,
        address: str,
        sample: int | None = None,
        about: Annotator | None = None,
    ) -> None:
        """Write before it is done, so that nothing is seen that is not in the log.

        What people see is many rows a minute: of these the last ones may be lost with the power.
        """
        with self.database.writing(durable=sample is None):
            self.database.connection.execute(
                "INSERT INTO access (time, annotator, address, deed, sample, about)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (time.time(), who and who.id, address, deed, sample, about and about.id),
            )

    def read(
        self, names: Sequence[str], classes: Sequence[str], since: datetime | None = None
    ) -> Iterator[tuple[str, ...]]:
        """Yield rows of COLUMNS, oldest first, with images and classes by name."""
        rows = self.database.rows(
            "SELECT time, log.name, address, deed, sample, label, whom.name FROM (SELECT log.*, name FROM ("
            "  SELECT time, annotator, address, deed, sample, NULL AS label, about, 0 AS kind, id FROM access"
            "  UNION ALL SELECT time, annotator, '', CASE WHEN action = 'undo' THEN 'undid answer'"
            "    WHEN final THEN 'decided' WHEN import IS NOT NULL THEN 'answered elsewhere'"
            "    ELSE 'answered' END, sample, coalesce(label, nullif(action, 'undo')), NULL, 1, id"
            "  FROM events) log"
            " LEFT JOIN annotators ON annotators.id = log.annotator) log"
            " LEFT JOIN annotators whom ON whom.id = about"
            " WHERE time >= ? ORDER BY time, kind, log.id",
            since.timestamp() if since else 0.0,
        )
        for at, person, address, deed, sample, label, about in rows:
            yield (
                datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
                person or "",
                address,
                deed,
                _name(names, sample),
                _name(classes, label) if isinstance(label, int) else label or "",
                about or "",
            )


def as_csv(rows: Iterator[tuple[str, ...]]) -> str:
    """Write the log as a table for spreadsheets, which must not take a name for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([f"'{cell}" if cell.startswith(FORMULA) else cell for cell in row] for row in rows)
    return text.getvalue()


def _name(names: Sequence[str], number: int | None) -> str:
    if number is None:
        return ""
    return names[number] if number < len(names) else str(number)
