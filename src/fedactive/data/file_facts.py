"""What must be known of image files before they are decoded: their content's hash, size and colours.

A file is read once. What was found is kept, and counts as long as size and time of the file are the same.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, UnidentifiedImageError

from fedactive.data.pictures import FORMATS, GREY, is_too_large
from fedactive.data.upright import SIDEWAYS, read_orientation
from fedactive.errors import DataError, RunError
from fedactive.files import cache_folder, write_atomically

NAMED = 5  # unreadable files in an error


class FileFacts(NamedTuple):
    sha256: str
    grey: bool
    height: int  # as the picture is shown
    width: int


def look_at(source: Path, root: Path, names: Sequence[str]) -> list[FileFacts]:
    """Return the facts of these files below `root`; DataError names those that are no images.

    `source` is what the user gave; facts are kept for each.
    """
    kept_in = cache_folder("files") / f"{hashlib.sha256(bytes(source.resolve())).hexdigest()[:32]}.json"
    known = read_kept(kept_in)
    stamps = dict(zip(names, map(stamp, (root / name for name in names)), strict=True))
    new = [name for name in names if known.get(name, [None])[0] != stamps[name]]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = dict(zip(new, threads.map(lambda name: read_facts(root / name), new), strict=True))
    require_readable(source, {name: facts for name, facts in found.items() if isinstance(facts, str)})
    if new:
        known |= {name: [stamps[name], list(facts)] for name, facts in found.items()}
        with suppress(OSError, RunError):  # it only saves time
            kept_in.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(kept_in, json.dumps({name: known[name] for name in names}).encode())
    return [FileFacts(*known[name][1]) for name in names]


def require_readable(source: Path, problems: dict[str, str]) -> None:
    if problems:
        some = ", ".join(f"{name} ({why})" for name, why in list(problems.items())[:NAMED])
        more = f" and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
        raise DataError(f"{source}: cannot use {some}{more}; repair these files or take them away")


def read_kept(path: Path) -> dict[str, list[Any]]:
    try:
        found = json.loads(path.read_bytes())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def stamp(path: Path) -> list[int]:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


def read_facts(path: Path) -> FileFacts | str:
    """Read the head of an image and hash all of it; or return why it is no image."""
    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if is_too_large(image):
                return "it is too large"
            if image.mode == "F":
                return "its pixels are real numbers, expected 8 or 16 bits"
            width, height = image.size
            if read_orientation(image) in SIDEWAYS:
                width, height = height, width
            return FileFacts(hashlib.sha256(content).hexdigest(), image.mode in GREY, height, width)
    except UnidentifiedImageError:
        return "it is not an image"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return "it is too large"
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for damaged files
        return f"it cannot be read: {' '.join(str(error).split()) or 'damaged'}"
