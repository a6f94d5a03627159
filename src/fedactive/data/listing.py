"""Which images a dataset of the user's own has: a folder, in which folders are classes, or a table of paths.

    FOLDER/train/CLASS/*      FOLDER/test/CLASS/*
    FOLDER/CLASS/*                                    the content of an image says if it is for tests
    FOLDER/clients/CLIENT/CLASS/*      FOLDER/test/CLASS/*     who has which image

Without `test`, the content decides, too. Below a class, images may lie in further folders.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedactive.data.pictures import is_picture
from fedactive.data.readers import bad_file
from fedactive.errors import DataError

LAYOUTS = "train/CLASS/*, clients/CLIENT/CLASS/* or CLASS/*"
# Names of folders that tell of a split; beside them, a folder is not a class.
SPLITS = ("test", "val", "valid", "validation", "training")
COLUMNS = ("path", "label", "split", "client")


class Listed(NamedTuple):
    """An image: where it is, and what is said of it."""

    name: str  # its path from the folder, or from that of the table
    label: str
    split: str = ""  # train or test; empty: its content decides
    client: str = ""


def list_images(source: Path) -> list[Listed]:
    """List the images of a folder or of a table, in the order of their names; or raise DataError."""
    try:
        found = read_table(source) if source.is_file() else list(list_folder(source))
    except OSError as error:
        raise DataError(f"{error.filename or source}: cannot be read: {error.strerror}") from None
    return sorted(found)


# --- a folder


def list_folder(root: Path) -> Iterator[Listed]:
    there = {path.name.lower(): path for path in folders_in(root)}
    if "train" in there and "clients" in there:
        raise bad_file(root, "it has both train and clients, expected one of them")
    split = "train" if "test" in there else ""
    if "clients" in there:
        clients = folders_in(there["clients"])
        if not clients:
            raise bad_file(there["clients"], "it has no folders of clients, expected clients/CLIENT/CLASS/*")
        for client in clients:
            yield from list_classes(root, client, split, client.name)
    elif "train" in there:
        yield from list_classes(root, there["train"], split)
    else:
        for name in SPLITS:
            if name in there:
                raise bad_file(root, f"it has {there[name].name} but no train, expected {LAYOUTS}")
        yield from list_classes(root, root, split)
        return
    if "test" in there:
        yield from list_classes(root, there["test"], "test")


def list_classes(root: Path, folder: Path, split: str, client: str = "") -> Iterator[Listed]:
    classes = folders_in(folder)
    if not classes:
        raise bad_file(folder, f"it has no folders of classes, expected {LAYOUTS}")
    if stray := next((path.name for path in folder.iterdir() if path.is_file() and is_picture(path)), ""):
        raise bad_file(folder, f"{stray} lies beside the folders of classes, expected it in one of them")
    for label in classes:
        found = list(images_below(label))
        if not found and not client:  # a client need not have all classes
            raise bad_file(label, "it has no images")
        for path in found:
            yield Listed(path.relative_to(root).as_posix(), label.name, split, client)


def folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


def images_below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "."]  # where the walk goes on
        for name in files:
            if name[0] != "." and is_picture(Path(name)):
                yield Path(place, name)


# --- a table


def read_table(path: Path) -> list[Listed]:
    """Read a CSV file with the columns path and label, and if you like split and client."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            columns = [name.strip() for name in table.fieldnames or ()]
            table.fieldnames = columns
            for name in COLUMNS[:2]:
                if name not in columns:
                    raise bad_file(path, f"it has no column {name}, but {', '.join(columns) or 'is empty'}")
            rows = [(table.line_num, row) for row in table]
    except (UnicodeDecodeError, csv.Error) as error:
        raise bad_file(path, f"it is not a CSV file in UTF-8 ({error})") from None
    split, client = ("split" in columns), ("client" in columns)
    found: dict[str, Listed] = {}
    for line, row in rows:
        cells = {name: (row.get(name) or "").strip() for name in COLUMNS}
        given = Listed(cells["path"], cells["label"], cells["split"].lower(), cells["client"])
        if not given.name or not given.label:
            raise bad_file(path, f"line {line} has no {'label' if given.name else 'path'}")
        if given.split not in (("train", "test") if split else ("",)):
            raise bad_file(path, f"line {line} has the split {cells['split']!r}, expected train or test")
        if client and not given.client and given.split != "test":
            raise bad_file(path, f"line {line} has no client")
        if given.name in found:
            raise bad_file(path, f"line {line} names {given.name} a second time")
        found[given.name] = given
    if not found:
        raise bad_file(path, "it names no images")
    missing = [name for name in found if not (path.parent / name).is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        where = f"(paths begin in {path.parent})"
        raise bad_file(path, f"it names what is not there: {missing[0]}{more} {where}")
    return list(found.values())
