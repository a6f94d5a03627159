"""Datasets: arrays, pictures, tables and DICOM, of which some is wrong."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pydicom

from fuzz.inputs import TEXTS, damage
from fuzz.options import flags
from fuzz.payload import archive, array, payloads
from fuzz.sound import TINY, Sound

SHAPES = (
    (),
    (0,),
    (10**12,),
    (24,),
    (24, 1),
    (24, 6, 6),
    (24, 6, 6, 2),
    (24, 6, 6, 3),
    (0, 6, 6),
    (24, 3, 3),
)
SHAPES += ((2**63, 2), (-1, 6), (24, 2000, 1), (1, 1, 1, 1, 1), (23, 5), (24, 5), (24, 0))
KINDS = ("|u1", "<i8", "<f4", "<f8", ">i2", "<U5", "|b1", "|O", "<c8", "|S3", "<M8[s]", "<f2")
ROLES = ("train_images", "train_labels", "test_images", "test_labels", "classes", "train_clients", "more")
ROLES += ("train_features", "test_features", "images", "../outside", "/absolute")


def npz(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """An .npz file of images or features."""
    given = rng.choice((sound.images, sound.images, sound.features))
    path, content = place / rng.choice(("data.npz", "data.NPZ")), given.read_bytes()
    how = rng.choice(("damage", "array", "array", "array", "payload"))
    if how == "damage":
        content = damage(content, rng)
    elif how == "array":
        content = with_other_array(content, rng)
    else:
        content = rng.choice([*payloads(), archive("images"), archive("train_features", "test_features")])
    path.write_bytes(content)
    model = str(rng.choice((*sound.models, sound.run)))
    return rng.choice(
        (
            ["data", "check", str(path)],
            ["run", *flags(TINY | {"dataset": path.name})],
            ["run", *flags(TINY | {"dataset": path.name, "partition": "given"})],
            ["predict", model, path.name, "-o", "predictions.csv"],
            ["site", "init", "north", "--images", path.name, "--classes", str(sound.site / "classes.txt")],
        )
    )


def with_other_array(content: bytes, rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        parts = {name: old.read(name) for name in old.namelist()}
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice((*parts, f"{rng.choice(ROLES)}.npy"))
            parts[name] = other_array(parts.get(name, array()), rng)
        for name in rng.sample(sorted(parts), rng.choice((0, 0, 0, 1))):
            del parts[name]
        for name, part in parts.items():
            new.writestr(name, part)
    return buffer.getvalue()


def other_array(content: bytes, rng: random.Random) -> bytes:
    """Another array in place of this one: damaged, a pickle, or of another type, shape or value."""
    how = rng.choice(("damage", "pickle", "header", "values", "values"))
    if how == "damage":
        return damage(content, rng)
    if how == "pickle":
        return array()
    if how == "header":
        kind, shape = rng.choice(KINDS), rng.choice(SHAPES)
        head = f"{{'descr': '{kind}', 'fortran_order': {rng.random() < 0.5}, 'shape': {shape}, }}\n".encode()
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content[-100:]
    buffer = io.BytesIO()
    kind, shape = np.dtype(rng.choice(KINDS)), rng.choice(SHAPES)
    if shape and (max(shape) > 10**4 or min(shape) < 0):
        shape = (24,)
    values = np.resize(np.array([rng.choice((0, 1, -1, 2, 255, 10**9)), 1, 0]), shape)
    if kind.kind == "f":
        values = np.where(values == 1, rng.choice((np.nan, np.inf, 1e30, 0.5)), values)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        np.save(buffer, values.astype(kind), allow_pickle=True)
    return buffer.getvalue()


def pictures(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """A folder of images by class, or a table of images."""
    folder = Path(shutil.copytree(sound.pictures, place / "pictures"))
    files = sorted(path for path in folder.rglob("*.*") if path.suffix != ".csv")
    for _ in range(rng.choice((1, 1, 2, 3))):
        spoil_picture(rng.choice(files), folder, rng)
    table = folder / "table.csv"
    if rng.random() < 0.4:
        table.write_bytes(damage(table.read_bytes(), rng))
    given = str(rng.choice((folder, table)).relative_to(place))
    size = {"image_size": rng.choice(("6", "8", "0", "4"))}
    model = str(rng.choice((*sound.models, sound.run)))
    return rng.choice(
        (
            ["data", "check", given],
            ["run", *flags(TINY | {"dataset": given} | size)],
            ["run", *flags(TINY | {"dataset": given, "partition": "given"} | size)],
            ["predict", model, "pictures", "-o", "predictions.csv"],
            ["site", "init", "north", "--images=pictures", f"--classes={sound.site / 'classes.txt'}"],
        )
    )


def spoil_picture(path: Path, folder: Path, rng: random.Random) -> None:
    """One thing that is wrong with a file, or with the folder that it is in."""
    if not path.is_file():
        return
    content, other = path.read_bytes(), rng.choice(sorted(folder.rglob("*.*")))
    ways = (
        lambda: path.write_bytes(damage(content, rng)),
        lambda: path.write_bytes(damage(content, rng)),
        lambda: path.write_bytes(huge_png(rng)),
        lambda: path.write_bytes(rng.choice(payloads())),
        lambda: path.rename(path.with_suffix(rng.choice((".jpg", ".tif", ".dcm", ".psd", ".PNG", ".webp")))),
        lambda: path.rename(path.with_name(name_of(rng) + path.suffix)),
        lambda: path.parent.rename(path.parent.with_name(name_of(rng))),
        lambda: shutil.rmtree(path.parent),
        lambda: (path.unlink(), path.mkdir()),
        lambda: (path.unlink(), path.symlink_to(rng.choice((path.name, "..", "missing", "/etc", other)))),
        lambda: os.path.lexists(path.parent / "above") or os.symlink("..", path.parent / "above"),
        lambda: (folder / rng.choice(("clients", "val", "Train", ".hidden"))).mkdir(exist_ok=True),
    )
    rng.choice(ways)()


def name_of(rng: random.Random) -> str:
    """A name that a file may have, and few have."""
    fit = [text for text in TEXTS if text not in ("", ".", "..") and "/" not in text and len(text) < 200]
    return rng.choice(fit)


def huge_png(rng: random.Random) -> bytes:
    """A PNG whose head says that it is huge, with little behind it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    side = rng.choice((0, 1, 9_000, 20_000, 2**31 - 1))
    head = struct.pack(">IIBBBBB", side, rng.choice((1, side)), rng.choice((1, 8, 16)), 0, 0, 0, 0)
    pixels = zlib.compress(bytes(rng.choice((0, 10, 10**6))))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


VALUES = (None, "", "x" * 70, "-1", "nan", "1e999", -1, 0, 1, 2, 65535, [1, 2], "MONOCHROME9", b"\xff" * 9)


def dicom(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """DICOM files, of a camera or of a scanner."""
    folder = place / "images"
    folder.mkdir()
    for path in rng.sample(sorted(sound.dicoms.iterdir()), 2):
        content = path.read_bytes()
        changed = other_tags(content, rng) if rng.random() < 0.6 else damage(content, rng)
        (folder / path.name).write_bytes(changed)
    classes = str(sound.site / "classes.txt")
    return rng.choice(
        (
            ["predict", str(rng.choice(sound.models)), "images", "-o", "predictions.csv"],
            ["site", "init", "north", "--images", "images", "--classes", classes],
        )
    )


def other_tags(content: bytes, rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = pydicom.dcmread(io.BytesIO(content))
        for _ in range(rng.choice((1, 2, 4))):
            about_pixels = [e.tag for e in dataset if e.tag.group == 0x28] or [e.tag for e in dataset]
            tag = rng.choice(about_pixels)
            try:
                dataset[tag].value = rng.choice(VALUES)
            except Exception:  # pydicom refuses some
                del dataset[tag]
        try:
            dataset.save_as(buffer)
        except Exception:  # or cannot write what it took
            return damage(content, rng)
    return buffer.getvalue()
