"""Read the images of a site: a folder of PNG, JPEG and DICOM files, or a MedMNIST-style .npz.

What cannot be used is left out and named in the pool's report.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image

from fedactive.data import dicom
from fedactive.data.deep import Window
from fedactive.data.pictures import Decoded, Pixels, Shape, decode, fit
from fedactive.data.readers import Array, medmnist
from fedactive.data.soundness import guarded
from fedactive.errors import DataError
from fedactive.sites.site.image_files import ENDINGS, find_images, leads_astray, stamp
from fedactive.sites.site.image_pool import ImagePool, ReadOriginal, Report, read_cache, write_cache

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
    if source.is_dir():
        pool = _read_folder(source, shape, cache, window, test, endings)
    elif source.is_file():
        pool = _read_npz(source, shape)
    else:
        raise DataError(f"{source}: there is no such folder or file")
    if not len(pool):
        what = "; ".join(pool.left_out()[:3]) or "it is empty"
        raise DataError(f"{source} has no image that can be used (wanted: png, jpg, dcm or .npz): {what}")
    return pool


# --- a folder


def _read_file(root: Path, name: str) -> bytes:
    path = root / name
    if astray := leads_astray(path, root):  # it may have become a link since it was read
        raise DataError(f"{name} leads {astray}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {name}: {error.strerror}") from None


def _read_folder(
    root: Path,
    shape: Shape,
    cache: Path | None,
    window: Window | None,
    test: Path | None,
    endings: tuple[str, ...],
) -> ImagePool:
    root = root.resolve()
    paths, refused, others = find_images(root, endings)
    files = [path for path in paths if path.suffix.lower() in dicom.ENDINGS]
    if files and not dicom.can_read():
        raise DataError(f"{root} has DICOM files, such as {files[0].name}. {dicom.MISSING}")
    apart = _dicom_files(test) if files else []
    names = [path.relative_to(root).as_posix() for path in paths]
    facts = [(name, *stamp(path)) for name, path in zip(names, paths, strict=True)]
    tests = [(str(path), *stamp(path)) for path in apart]
    made_of = [DECODER, shape, window, facts, refused, others, tests]
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()
    original = partial(_read_file, root)
    if cache is not None and (cached := read_cache(cache, key, original)):
        return cached
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        patients = set(threads.map(dicom.patient_of, apart)) - {None}

        def read(path: Path) -> Decoded | str:
            if patients and dicom.patient_of(path) in patients:
                return "its patient is among the test images"
            return decode(path, shape, window)

        decoded = list(threads.map(read, paths))
    pool = _sift(names, decoded, shape, refused, others, original)
    if cache is not None:
        write_cache(cache, key, pool)
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
    return ImagePool(pixels, names, digests, report, original, deep)


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


def _read_npz(path: Path, shape: Shape) -> ImagePool:
    images = read_arrays(path, "train_images")["train_images"]
    rows = {f"train_images[{k}]": k for k in range(len(images))}

    def original(name: str) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(images[rows[name]]).save(buffer, "PNG")
        return buffer.getvalue()

    decoded = [
        Decoded(fit(Image.fromarray(x), shape), hashlib.sha256(x.tobytes()).digest(), False) for x in images
    ]
    return _sift(list(rows), decoded, shape, (), 0, original)
