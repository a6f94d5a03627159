"""Decoded images of a folder, kept in a file: decoding thousands of pictures takes minutes."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from fedactive.errors import DataError
from fedactive.sites.site.image_pool import ImagePool, ReadOriginal, Report


def write_cache(cache: Path, key: str, pool: ImagePool) -> None:
    """Keep a pool; `key` says what it was made of."""
    facts = {"key": key, "names": pool.names, "digests": pool.digests} | asdict(pool.report)
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
            return ImagePool(content["pixels"], names, digests, report, original)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
        return None
