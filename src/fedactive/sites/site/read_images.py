"""Read the images of a site: a folder of PNG, JPEG and DICOM files, or a MedMNIST-style .npz.

What cannot be used is left out and named in the pool's report.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedactive.data import dicom
from fedactive.data.deep import Window
from fedactive.data.pictures import Decoded, Pixels, Shape, decode, digest_of, fit, see_file
from fedactive.data.readers import Array, medmnist
from fedactive.data.soundness import guarded
from fedactive.errors import DataError
from fedactive.sites.site.image_files import ENDINGS, Stamp, find_images, leads_astray, stamp
from fedactive.sites.site.image_pool import (
    Fact,
    GoneError,
    ImagePool,
    ReadOriginal,
    Report,
    read_cache,
    read_decoded,
    write_cache,
)

# An earlier version may have decoded the same pictures to other pixels.
SOURCES = [
    files("fedactive.data").joinpath(name) for name in ("pictures.py", "upright.py", "deep.py", "dicom.py")
]
DECODER = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()


def read_images(
    source: Path,
    shape: Shape,
    cache: Path | None = None,
    *,
    window: Window | None = None,
    test: Path | None = None,
    endings: tuple[str, ...] = ENDINGS,
) -> ImagePool:
    """Read all images of a folder or .npz in the wanted shape. `cache` is a file to keep decoded ones in.

    Training sees pictures of more than 8 bits in this `window`, or each in its own. Images of patients who
    are among the `test` images are left out.
    """
    state = state_of(source, shape, window=window, test=test, endings=endings)
    if source.is_dir():
        pool = _read_folder(Listing.of(source, test, endings), shape, window, cache)
    else:
        pool = _read_npz(source, shape, state)
    if not len(pool):
        what = "; ".join(pool.left_out()[:3]) or "it is empty"
        raise DataError(f"{source} has no image that can be used (wanted: png, jpg, dcm or .npz): {what}")
    return pool


def state_of(
    source: Path,
    shape: Shape,
    *,
    window: Window | None = None,
    test: Path | None = None,
    endings: tuple[str, ...] = ENDINGS,
) -> str:
    """Return a word that stays the same as long as the files do, and how they are read. No file is opened."""
    if source.is_dir():
        return Listing.of(source, test, endings).state(shape, window)
    if source.is_file():
        return _hash([shape, stamp(source)])
    raise DataError(f"{source}: there is no such folder or file")


def _hash(made_of: list[Any]) -> str:
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


# --- a folder


@dataclass(frozen=True)
class Listing:
    """What is in a folder now, without opening any file."""

    root: Path
    facts: list[Fact]
    refused: list[tuple[str, str]]
    others: int
    tests: list[Path]  # DICOM files among the test images, whose patients stay apart

    @classmethod
    def of(cls, source: Path, test: Path | None, endings: tuple[str, ...]) -> Listing:
        root = source.resolve()
        paths, refused, others = find_images(root, endings)
        deep = [path for path in paths if path.suffix.lower() in dicom.ENDINGS]
        if deep and not dicom.can_read():
            raise DataError(f"{root} has DICOM files, such as {deep[0].name}. {dicom.MISSING}")
        facts = [(path.relative_to(root).as_posix(), *stamp(path)) for path in paths]
        return cls(root, facts, refused, others, _dicom_files(test) if deep else [])

    def manner(self, shape: Shape, window: Window | None) -> str:
        """Say how its files are decoded, beside what is in them."""
        return _hash([DECODER, shape, window, [(str(path), *stamp(path)) for path in self.tests]])

    def state(self, shape: Shape, window: Window | None) -> str:
        return _hash([self.manner(shape, window), self.facts, self.refused, self.others])


def _read_file(root: Path, stamps: Mapping[str, Stamp], name: str, digest: str) -> bytes:
    path = root / name
    if astray := leads_astray(path, root):  # it may have become a link since it was read
        raise GoneError(f"{name} leads {astray}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GoneError(f"cannot read {name}: {error.strerror}") from None
    if stamp(path) != stamps[name]:
        seen = see_file(io.BytesIO(content), name)
        if isinstance(seen, str) or digest_of(seen).hex() != digest:
            raise GoneError(f"{name} is another picture than before")
    return content


def _read_folder(listing: Listing, shape: Shape, window: Window | None, cache: Path | None) -> ImagePool:
    root, state, manner = listing.root, listing.state(shape, window), listing.manner(shape, window)
    original = partial(_read_file, root, {fact[0]: fact[1:] for fact in listing.facts})
    if cache is not None and (cached := read_cache(cache, state, original)):
        return cached
    known = read_decoded(cache, manner) if cache is not None else {}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        patients = set(threads.map(dicom.patient_of, listing.tests)) - {None}

        def read(fact: Fact) -> Decoded | str:
            if fact in known:
                return known[fact]
            path = root / fact[0]
            if patients and dicom.patient_of(path) in patients:
                return "its patient is among the test images"
            return decode(path, shape, window)

        decoded = list(threads.map(read, listing.facts))
    names = [name for name, *_ in listing.facts]
    pool = _sift(names, decoded, shape, listing.refused, listing.others, original, state)
    if cache is not None:
        became = [result if isinstance(result, str) else result.digest.hex() for result in decoded]
        write_cache(cache, manner, dict(zip(listing.facts, became, strict=True)), pool)
    return pool


def _dicom_files(folder: Path | None) -> list[Path]:
    if folder is None or not folder.is_dir():
        return []
    return find_images(folder.resolve(), dicom.ENDINGS)[0]


def _sift(
    names: Sequence[str],
    decoded: Sequence[Decoded | str],
    shape: Shape,
    refused: Sequence[tuple[str, str]],
    others: int,
    original: ReadOriginal,
    state: str,
) -> ImagePool:
    """Keep one of each picture, and report the others."""
    unreadable, duplicates = list(refused), []
    kept: dict[bytes, tuple[str, Pixels, bool]] = {}
    for name, result in zip(names, decoded, strict=True):
        if isinstance(result, str):
            unreadable.append((name, result))
        elif result.digest in kept:
            duplicates.append((name, kept[result.digest][0]))
        else:
            kept[result.digest] = name, result.pixels, result.deep
    pixels = np.empty((len(kept), *shape), np.uint8)
    for k, (_, image, _) in enumerate(kept.values()):
        pixels[k] = image
    report = Report(tuple(unreadable), tuple(duplicates), others)
    digests = tuple(digest.hex() for digest in kept)
    names, deep = tuple(name for name, _, _ in kept.values()), tuple(deep for _, _, deep in kept.values())
    return ImagePool(pixels, names, digests, report, original, deep, state)


# --- an .npz


def read_arrays(path: Path, images: str, *others: str) -> dict[str, Array]:
    """Read arrays of an .npz file, of which one has images."""
    read = guarded(lambda file: medmnist.read_arrays(file, (images, *others)), path)
    found = read[images]
    colours = found.ndim == 4 and found.shape[3] == 3
    if found.dtype != np.uint8 or not (found.ndim == 3 or colours) or 0 in found.shape[1:]:
        form = f"{found.dtype} {found.shape}"
        raise DataError(f"{path}: {images} is {form}, wanted is uint8 (n, height, width[, 3])")
    return read


def _read_npz(path: Path, shape: Shape, state: str) -> ImagePool:
    images = read_arrays(path, "train_images")["train_images"]
    rows = {f"train_images[{k}]": k for k in range(len(images))}

    def original(name: str, _: str) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(images[rows[name]]).save(buffer, "PNG")
        return buffer.getvalue()

    decoded = [
        Decoded(fit(Image.fromarray(x), shape), hashlib.sha256(x.tobytes()).digest(), False) for x in images
    ]
    return _sift(list(rows), decoded, shape, (), 0, original, state)
