"""The SQLite file under the label store: durable, and safe for several processes and threads."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from fedactive.errors import UserError

VERSION = 6
# The statements that turn a store of an earlier version into one of the next; schema.sql is the latest.
CHANGES = {
    1: (
        "ALTER TABLE annotators ADD COLUMN role TEXT NOT NULL DEFAULT 'elsewhere'"
        " CHECK (role IN ('elsewhere', 'annotator', 'lead', 'removed'))",
        "UPDATE annotators SET role = 'annotator' WHERE token_hash IS NOT NULL",
        "CREATE TABLE guesses_seen (sample INTEGER NOT NULL,"
        " annotator INTEGER NOT NULL REFERENCES annotators, PRIMARY KEY (sample, annotator)) WITHOUT ROWID",
    ),
    2: ("ALTER TABLE rounds ADD COLUMN planned INTEGER",),
    3: (
        "ALTER TABLE annotators ADD COLUMN reviews INTEGER NOT NULL DEFAULT 0",
        "CREATE TABLE sessions (key_hash TEXT PRIMARY KEY,"
        " annotator INTEGER NOT NULL REFERENCES annotators, began REAL NOT NULL) WITHOUT ROWID",
        "CREATE INDEX sessions_of_annotator ON sessions (annotator)",
        "CREATE TABLE imports (id INTEGER PRIMARY KEY, time REAL NOT NULL,"
        " annotator INTEGER NOT NULL REFERENCES annotators, undone REAL)",
        "ALTER TABLE events ADD COLUMN import INTEGER REFERENCES imports",
        "CREATE INDEX events_of_import ON events (import) WHERE import IS NOT NULL",
        "CREATE TABLE access (id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL,"
        " annotator INTEGER REFERENCES annotators, address TEXT NOT NULL, deed TEXT NOT NULL,"
        " sample INTEGER)",
        *(
            f"CREATE TRIGGER access_{name} BEFORE {change} ON access BEGIN"
            " SELECT RAISE(ABORT, 'the access log only grows'); END"
            for name, change in (("stays", "UPDATE"), ("remains", "DELETE"))
        ),
    ),
    4: (
        "ALTER TABLE rounds ADD COLUMN level REAL",
        "ALTER TABLE rounds ADD COLUMN width REAL",
        "ALTER TABLE events ADD COLUMN comment TEXT",
        "ALTER TABLE events ADD COLUMN gold INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE access ADD COLUMN about INTEGER REFERENCES annotators",
        "CREATE TABLE gold (sample INTEGER PRIMARY KEY, label INTEGER NOT NULL,"
        " annotator INTEGER NOT NULL REFERENCES annotators, time REAL NOT NULL)",
    ),
    5: ("CREATE TABLE images (sample INTEGER PRIMARY KEY, digest TEXT NOT NULL, gone INTEGER NOT NULL)",),
}
SECONDS_TO_WAIT = 30.0  # for another process that writes


class StoreError(UserError):
    """The label store cannot be read or written, or cannot do what it was asked."""


class SenselessError(StoreError):
    """A request that is wrong in itself: to send it again is no use."""


class Database:
    """One connection for all threads. Threads wait at a lock, which is fairer than SQLite's waiting.

    Write-ahead log with synchronous FULL: once `writing()` has ended, what was written survives a kill and a
    power cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        with self.explain_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # SQLite gives its other files the same mode
            self.connection = sqlite3.connect(
                path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
            )
            # Where the rest fails, or nobody calls close(): Python 3.13 warns of connections left over.
            weakref.finalize(self, self.connection.close).atexit = False
            self.connection.row_factory = sqlite3.Row
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA foreign_keys = ON")
        with self.writing():
            version = self.one("PRAGMA user_version")[0]
            if version > VERSION:
                raise StoreError(f"{path} was written by a later version of fedactive (format {version})")
            if version < VERSION:
                changes = [CHANGES[old] for old in range(version, VERSION)] if version else [_statements()]
                for statement in chain.from_iterable(changes):
                    self.connection.execute(statement)
                self.connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[None]:
        """Write all or nothing, while nobody else writes. What is not `durable` a power cut may lose."""
        with self.lock, self.explain_errors():
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise StoreError with a sentence: the disk is full, the file is locked, damaged or forbidden."""
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # a mistake in the program, not in the file
        except (OSError, sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot use the label store {self.path}: {error}") from None

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self.lock, self.explain_errors():
            return self.connection.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        """Return the first row, or None."""
        with self.lock, self.explain_errors():
            return self.connection.execute(sql, values).fetchone()

    def close(self) -> None:
        with self.lock:
            self.connection.close()


def _statements() -> Iterator[str]:
    """Yield the schema's statements one by one: sqlite3's executescript() would commit in between."""
    schema, statement = files("fedactive.sites.labels").joinpath("schema.sql"), ""
    for line in schema.read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
