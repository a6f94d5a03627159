"""What all readers of stored runs share: what is wrong with a file or folder, told in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedactive.errors import RunError

Skipped = list[tuple[Path, str]]  # what is left out, and why: the predicate of a sentence


@contextmanager
def readable(folder: Path, name: str) -> Iterator[Path]:
    """The file to read in the block; what goes wrong there is told in one sentence."""
    try:
        yield folder / name
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{folder} has an unreadable {name}: {reason(error)}") from None


def reason(error: Exception) -> str:
    """Why a file cannot be read, short and on one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, KeyError):
        text = f"it has no {error}"
    return " ".join((text or type(error).__name__).split())[:160]


def predicate(error: RunError, folder: Path) -> str:
    """The error without the folder that it begins with."""
    return str(error).removeprefix(f"{folder} ")


def listed(skipped: Skipped) -> str:
    """The first few, where nothing else is left to report."""
    first = "; ".join(f"{path} {why}" for path, why in skipped[:5]) or "no folder was given"
    return first + (f"; and {len(skipped) - 5} more" if len(skipped) > 5 else "")
