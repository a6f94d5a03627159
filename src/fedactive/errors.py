"""Errors a user can cause. The command line prints them as one sentence, without a traceback."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

ERROR = "fedactive: "  # begins the sentence about an error


class UserError(Exception):
    """Something the user can put right; its text says what and how. `exit_code` is what a command returns."""

    exit_code = 1


class ConfigurationError(UserError):
    """A setting that cannot work, found before any work: which field, what was given, what is allowed."""

    exit_code = 2

    def __init__(self, field: str, given: object, allowed: str, nearest: str | None = None) -> None:
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        super().__init__(f"{field}: {given!r} was given, allowed is {allowed}{hint}")
        self.field = field


class DataError(UserError):
    """A dataset that is missing, damaged or of the wrong shape; names the file."""


class RunError(UserError):
    """A run folder that cannot be written, read or continued; names the file."""


def unknown_name(field: str, given: object, names: Iterable[str], besides: str = "") -> ConfigurationError:
    """The error for a name that is not in a list, with the nearest one for a typo."""
    known = sorted(names)
    near = difflib.get_close_matches(str(given).lower(), known, n=1, cutoff=0.6)
    return ConfigurationError(field, given, "one of " + ", ".join(known) + besides, near[0] if near else None)


def user_message(error: Exception) -> str | None:
    """The sentence that a user is to hear of an error; None if there is none, and a traceback is needed."""
    if isinstance(error, UserError):
        return f"{ERROR}{error}"
    if isinstance(error, OSError) and error.filename is not None:  # a file that nobody may look at, say
        return f"{ERROR}{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # what was printed went to a file
        return f"{ERROR}{error.strerror}"
    return None
