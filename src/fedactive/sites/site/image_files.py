"""Find the image files of a folder: at any depth, but nothing hidden and nothing outside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from fedactive.data.dicom import ENDINGS as DICOM
from fedactive.errors import DataError

PICTURES = (".png", ".jpg", ".jpeg")
ENDINGS = (*PICTURES, *DICOM)

Stamp = tuple[int, int, int]


def find_images(
    root: Path, endings: tuple[str, ...] = ENDINGS
) -> tuple[list[Path], list[tuple[str, str]], int]:
    """Return image files in order of their names, refused links, and how many other files there are."""
    found, refused, others = [], [], 0
    try:
        for folder, folders, files in os.walk(root, onerror=_give_up):
            folders[:] = _visible(folders)  # where the walk goes on
            for name in (*folders, *_visible(files)):
                path = Path(folder) / name
                if path.is_symlink() and (astray := leads_astray(path, root)):
                    refused.append((path.relative_to(root).as_posix(), f"a link that leads {astray}"))
                elif name in folders:
                    continue
                elif path.suffix.lower() in endings:
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


def leads_astray(path: Path, root: Path) -> str | None:
    """Say where a path leads if it is not to something inside; None also for what is simply not there."""
    try:
        inside = path.resolve(strict=True).is_relative_to(root)
    except PermissionError:  # what is inside can be read
        inside = False
    except (OSError, RuntimeError):  # it ends at what is not there, or leads in a circle
        return "nowhere" if path.is_symlink() else None
    return None if inside else "out of the folder"


def stamp(path: Path) -> Stamp:
    """Size and times of a file, which change with it; `ctime` also when two files change places."""
    try:
        facts = path.stat()
    except OSError:
        return 0, 0, 0
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
