"""The images of a site after reading: pixels for training, originals for people, and what was left out.

Training sees all images as one uint8 array of one shape; people see the original pictures. A pool is sorted
by name. It can be kept in a file, because decoding thousands of pictures takes minutes; of a folder that has
grown only the new ones are decoded.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from fedactive.data import dicom
from fedactive.data.deep import Deep, Window
from fedactive.data.pictures import Decoded, Pixels, see_file
from fedactive.errors import DataError
from fedactive.sites.site.image_files import ENDINGS
from fedactive.sites.site.metadata import without_metadata

# From the name of an image, and a hash of what it shows, to the content of its file; or GoneError.
ReadOriginal = Callable[[str, str], bytes]
Fact = tuple[str, int, int, int]  # name of a file, its size and times: while they stay, so does the picture

TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}  # by the first bytes


class GoneError(DataError):
    """A picture is no longer where it was: its file is gone, or shows something else."""


@dataclass(frozen=True)
class Report:
    """What was left out of the pool, and why."""

    unreadable: tuple[tuple[str, str], ...] = ()  # name, reason
    duplicates: tuple[tuple[str, str], ...] = ()  # name, the equal image that is kept
    other_files: int = 0

    def sentences(self) -> list[str]:
        """Return a sentence about each. Bytes of names that are no text are escaped."""
        lines = [f"{name} is left out: {reason}" for name, reason in self.unreadable]
        lines += [f"{name} is left out: the same picture as {kept}" for name, kept in self.duplicates]
        if self.other_files:
            files = "1 file is" if self.other_files == 1 else f"{self.other_files} files are"
            lines.append(f"{files} left out: not {', '.join(ENDINGS)}")
        return [line.encode(errors="backslashreplace").decode() for line in lines]


@dataclass(frozen=True)
class ImagePool:
    pixels: Pixels  # (n, channels, height, width)
    names: tuple[str, ...]
    digests: tuple[str, ...]  # of what the originals show: the same picture has the same
    report: Report
    original: ReadOriginal
    deep: tuple[bool, ...]  # which have more than 8 bits
    state: str  # stays the same as long as the files do, and how they are read

    def __len__(self) -> int:
        return len(self.names)

    def left_out(self) -> list[str]:
        return self.report.sentences()

    def is_deep(self, sample: int) -> bool:
        return 0 <= sample < len(self) and self.deep[sample]

    def values(self, sample: int) -> Deep:
        """Return a deep image in full."""
        seen = self._see(sample, self._content(sample))
        if not isinstance(seen, Deep):
            raise DataError(f"{self.names[sample]} is no longer a picture of more than 8 bits")
        return seen

    def picture(self, sample: int, window: Window | None = None) -> tuple[bytes, str]:
        """Return an image for display, and its media type: a deep one in this window or its own.

        A PNG or JPEG of 8 bits is the original without its metadata.
        """
        content = self._content(sample)
        if self.deep[sample] or dicom.is_dicom(content):
            seen, buffer = self._see(sample, content), io.BytesIO()
            image = seen.seen_through(window) if isinstance(seen, Deep) else seen
            image.save(buffer, "PNG", compress_level=1)  # the fastest
            return buffer.getvalue(), "image/png"
        for start, kind in TYPES.items():
            if content.startswith(start):
                try:
                    return without_metadata(content), kind
                except DataError as error:
                    raise DataError(f"{self.names[sample]} cannot be shown: {error}") from None
        raise DataError(f"{self.names[sample]} is no longer a PNG or JPEG file")

    def _content(self, sample: int) -> bytes:
        if not 0 <= sample < len(self):
            raise DataError(f"there is no image {sample}: the pool has {len(self)}")
        return self.original(self.names[sample], self.digests[sample])

    def _see(self, sample: int, content: bytes) -> Image.Image | Deep:
        seen = see_file(io.BytesIO(content))
        if isinstance(seen, str):
            raise DataError(f"{self.names[sample]} cannot be shown: {seen}")
        return seen


def write_cache(cache: Path, manner: str, files: Mapping[Fact, str], pool: ImagePool) -> None:
    """Keep a pool. `manner` says how files were decoded, `files` what became of each: a hash, or why none."""
    facts = {"key": pool.state, "names": pool.names, "digests": pool.digests, "deep": pool.deep}
    facts |= asdict(pool.report) | {"manner": manner, "files": list(files.items())}
    partial = cache.with_name(f".{cache.name}.partial")
    try:
        cache.parent.mkdir(exist_ok=True)
        with partial.open("wb") as file:  # not by way of memory, where the pixels are already
            np.savez(file, pixels=pool.pixels, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8))
        os.replace(partial, cache)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise DataError(f"cannot write {cache}: {error.strerror}") from None


def read_cache(cache: Path, key: str, original: ReadOriginal) -> ImagePool | None:
    """Return the pool that was kept under this key; None if there is another one, or it is damaged."""
    try:
        with np.load(cache, allow_pickle=False) as content:
            facts = json.loads(content["facts"].tobytes())
            if facts["key"] != key:
                return None
            pairs = [tuple((a, b) for a, b in facts[name]) for name in ("unreadable", "duplicates")]
            report = Report(pairs[0], pairs[1], facts["other_files"])
            names, digests = tuple(facts["names"]), tuple(facts["digests"])
            return ImagePool(content["pixels"], names, digests, report, original, tuple(facts["deep"]), key)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile, EOFError):
        return None


def read_decoded(cache: Path, manner: str) -> dict[Fact, Decoded | str]:
    """Return what became of each file when it was decoded last, if that was in the same manner."""
    try:
        with np.load(cache, allow_pickle=False) as content:
            facts = json.loads(content["facts"].tobytes())
            if facts["manner"] != manner:
                return {}
            pixels = content["pixels"]
            rows = {
                digest: Decoded(pixels[k], bytes.fromhex(digest), deep)
                for k, (digest, deep) in enumerate(zip(facts["digests"], facts["deep"], strict=True))
            }
            return {(name, *stamp): rows.get(became, became) for (name, *stamp), became in facts["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile, EOFError):
        return {}
