"""Find the image files of a folder: at any depth, but nothing hidden and nothing outside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from fedactive.errors import DataError

ENDINGS = (".png", ".jpg", ".jpeg")


def find_images(root: Path) -> tuple[list[Path], list[tuple[str, str]], int]:
    """Return image files in order of their names, refused links, and how many other files there are."""
    found, refused, others = [], [], 0
    try:
        for folder, folders, files in os.walk(root, onerror=_give_up):
            folders[:] = _visible(folders)  # where the walk goes on
            for name in (*folders, *_visible(files)):
                path = Path(folder) / name
                if path.is_symlink() and leads_out(path, root):
                    refused.append((path.relative_to(root).as_posix(), "a link that leads out of the folder"))
                elif name in folders:
                    continue
                elif path.suffix.lower() in ENDINGS:
                    found.append(path)
                else:
                    others += 1
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from None
    return sorted(found, key=lambda path: path.relative_to(root).as_posix()), sorted(refused), others


def _give_up(error: OSError) -> NoReturn:
    """Stop reading: without one of its folders the pool would silently be another one."""
    raise error


def _visible(names: list[str]) -> list[str]:
    """Leave out hidden files, which are previews, caches and trash."""
    return [name for name in names if not name.startswith(".")]


def leads_out(path: Path, root: Path) -> bool:
    try:
        return not path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # a link to nowhere, or in a circle
        return True


def stamp(path: Path) -> tuple[int, int, int]:
    """Size and times of a file, which change with it; `ctime` also when two files change places."""
    try:
        facts = path.stat()
    except OSError:
        return 0, 0, 0
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
