"""Write files atomically: a kill or a full disk leaves the old file or the new one, never a part of one."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedactive.errors import RunError

CACHE = "FEDACTIVE_CACHE"  # the variable that names the folder for what can be computed again


def expand_home(path: str | Path) -> Path:
    """Replace `~` by the home folder: in files and after `=` no shell does that."""
    return Path(os.path.expanduser(path))


def cache_folder(kind: str) -> Path:
    """Return the folder of what can be computed again, by its kind."""
    return expand_home(os.environ.get(CACHE) or "~/.cache/fedactive") / kind


def quote(value: object) -> str:
    """Quote a value for a shell: a path in a command that we print may contain spaces."""
    return shlex.quote(str(value))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file's content; if that fails at any point, the old content stays."""
    os.replace(write_partial(path, content), path)


def write_partial(path: Path, content: bytes) -> Path:
    """Write the content safely to disk under a temporary name beside `path`; return that name."""
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
    """Write a file that the user named; make its folder if it does not exist.

    Links are followed. What is not a plain file, such as /dev/stdout, is written to and never replaced.
    """
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder")
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{target.name}.partial")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        with suppress(FileExistsError):  # where it is a file, the next line says so
            target.parent.mkdir(parents=True)
        partial.write_bytes(content)
        os.replace(partial, target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise RunError(f"cannot write {path}: {error.strerror}") from None


def load_toml(text: str) -> dict[str, Any]:
    """Read a TOML text; a ValueError says what is wrong with it."""
    try:
        return tomllib.loads(text)
    except RecursionError:  # a list of lists of lists, thousands deep
        raise ValueError("its lists or tables are nested too deeply") from None


# What to do about a damaged file of ours.
AGAIN = "delete it and run again (nothing else was touched)"
RESTORE = "restore it from a backup"


def read_json(path: Path, field: str, absent: Any, remedy: str = AGAIN) -> Any:
    """Read one field of a JSON file of ours; `absent`, which has the same type, if there is no file yet."""
    if not path.exists():
        return absent
    try:
        value = json.loads(path.read_text(encoding="utf-8"))[field]
        if type(value) is not type(absent):
            raise TypeError
        return value
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise RunError(f"{path} is damaged; {remedy}") from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
