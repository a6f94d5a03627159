"""Files that are whole or not there: a kill or a full disk at any moment leaves no half-written one."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedactive.errors import RunError


def expand_home(path: str | Path) -> Path:
    """The path, `~` replaced by the home folder: in files and after `=` no shell does that."""
    return Path(os.path.expanduser(path))


def quote(value: object) -> str:
    """Quote a value for a shell: a path in a command that we print may have blanks in it."""
    return shlex.quote(str(value))


def write_atomically(path: Path, content: bytes) -> None:
    """Afterwards the file has the new content or, whatever happens, still the old one."""
    os.replace(write_partial(path, content), path)


def write_partial(path: Path, content: bytes) -> Path:
    """The content safely on disk under a temporary name beside `path`."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RunError(
            f"cannot write {path}: {error.strerror}; all that was saved before is intact, "
            "start the same command again to resume"
        ) from None
    return partial


def write_output(path: Path, content: bytes) -> None:
    """Write a file that the user named; its folder is made if need be.

    Links are followed, and what is no plain file, such as /dev/stdout, is written to, never replaced.
    """
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder")
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{target.name}.partial")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        with suppress(FileExistsError):  # be it a file: opening another one in it says so
            target.parent.mkdir(parents=True)
        partial.write_bytes(content)
        os.replace(partial, target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise RunError(f"cannot write {path}: {error.strerror}") from None


def read_json(path: Path, field: str, absent: Any) -> Any:
    """That field of a file of ours, of the type of `absent`, which it is if there is no such file yet."""
    if not path.exists():
        return absent
    try:
        value = json.loads(path.read_text(encoding="utf-8"))[field]
        if type(value) is not type(absent):
            raise TypeError
        return value
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise RunError(f"{path} is damaged; delete it and run again (nothing else was touched)") from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
