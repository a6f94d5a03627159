"""Errors a user can cause. The command line prints them as one sentence, without a traceback."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

ERROR = "fedactive: "  # begins every error message of the command line
LONGEST = 2000  # characters of a message


class UserError(Exception):
    """A mistake that the user can correct; the text says how. `exit_code` is what the command returns."""

    exit_code = 1


class ConfigurationError(UserError):
    """A setting that cannot work, found before any work; names the field, what was given, what is allowed."""

    exit_code = 2

    def __init__(self, field: str, given: object, allowed: str, nearest: str | None = None) -> None:
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        super().__init__(f"{field}: {given!r} was given, allowed is {allowed}{hint}")
        self.field = field


class DataError(UserError):
    """A dataset that is missing, damaged or of the wrong shape; names the file."""


class RunError(UserError):
    """A run folder that cannot be written, read or continued; names the file."""


class InUseError(RunError):
    """A run folder that another process holds: that one does the run, so it has not failed."""

    exit_code = 75  # "try again later", as sysexits.h calls it


def unknown_name(field: str, given: object, names: Iterable[str], besides: str = "") -> ConfigurationError:
    """Make the error for a name that is not in a list; it suggests the nearest one in case of a typo."""
    known = sorted(names)
    near = difflib.get_close_matches(str(given).lower(), known, n=1, cutoff=0.6)
    return ConfigurationError(field, given, "one of " + ", ".join(known) + besides, near[0] if near else None)


def user_message(error: Exception) -> str | None:
    """Return the message that a user sees of an error; None if the error needs a traceback."""
    if isinstance(error, UserError):
        return f"{ERROR}{error}"
    if isinstance(error, OSError) and error.filename is not None:  # for example, no permission to read a file
        return f"{ERROR}{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # standard output is a file on a full disk
        return f"{ERROR}{error.strerror}"
    return None


def plain(text: str) -> str:
    """Return a message as a terminal is to show it: it may quote control characters, or endless names."""
    shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[: LONGEST * 3 // 4]} ... {shown[-LONGEST // 4 :]}"  # what is allowed stands at the end
