"""Lines of a log: each begins with the date and time, to the second and with the offset from UTC."""

from __future__ import annotations

import logging
from datetime import datetime

LONGEST_ENTRY = 20_000  # characters; a site could say millions


class PlainFormatter(logging.Formatter):
    """Escapes control characters: some of what is logged comes from elsewhere, such as a site's error.

    That text must not control the terminal on which somebody reads the log, nor look like a line of ours.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="seconds")

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record)[:LONGEST_ENTRY].split("\n")
        return "\n    ".join("".join(map(escape, line)) for line in lines)


def escape(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
