"""From a name and a folder to a dataset: find the files, read them, and trust nothing that was read."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from fedactive.data.catalog import DATASETS, DatasetCard, Layout
from fedactive.data.dataset import Dataset
from fedactive.data.readers import Array, Parts, bad_file
from fedactive.errors import DataError, unknown_name


class DataWarning(UserWarning):
    """Data that can be used but is not what its authors published."""


@dataclass(frozen=True)
class FileReport:
    """What `check` found out about one file."""

    path: Path
    checksum: Literal["official", "different", "missing"]
    problem: str | None  # why the file cannot be used; None when it reads well

    @property
    def present(self) -> bool:
        return self.checksum != "missing"


def load(name: str, data_dir: Path) -> Dataset:
    """Read a dataset from the files below `data_dir`; warns when they are not the official ones."""
    card = find_card(name)
    if card.built_in is not None:
        return _dataset(card, _join(data_dir, [card.built_in()]))
    layout, folder = _nearest_place(card, data_dir)
    if missing := _missing(layout, folder):
        raise DataError(
            f"{name}: {_listed(missing)} not found (looked in {_listed(_folders(card, data_dir))}); "
            f"get it with: fedactive data get {name} --data-dir {data_dir}"
        )
    parts = _join(folder, [_read(card, layout, folder / file.name) for file in layout.files])
    foreign = [file.name for file in layout.files if not is_official(folder / file.name, file.checksum)]
    if foreign:
        warnings.warn(
            f"{name}: not the official checksum, used because it reads well: {_listed(foreign)} in {folder}",
            DataWarning,
            stacklevel=2,
        )
    return _dataset(card, parts)


def check(name: str, data_dir: Path) -> list[FileReport]:
    """Look at every file of a dataset, not only at the first bad one; a built-in dataset has no files."""
    card = find_card(name)
    if not card.layouts:
        return []
    layout, folder = _nearest_place(card, data_dir)
    reports, readable = [], []
    for file in layout.files:
        path = folder / file.name
        if not path.is_file():
            reports.append(FileReport(path, "missing", "not found"))
            continue
        problem = None
        try:
            readable.append(_read(card, layout, path))
        except DataError as error:
            problem = str(error).removeprefix(f"{path}: ")
        checksum: Literal["official", "different"] = (
            "official" if is_official(path, file.checksum) else "different"
        )
        reports.append(FileReport(path, checksum, problem))
    if len(readable) == len(layout.files):
        try:
            _join(folder, readable)
        except DataError as error:  # each file is sound, but they do not belong together
            reports = [replace(report, problem=str(error)) for report in reports]
    return reports


def find_card(name: str) -> DatasetCard:
    """The catalogue's entry for a dataset that can be used."""
    if name not in DATASETS:
        raise unknown_name("dataset", name, DATASETS)
    card = DATASETS[name]
    if card.unsupported:
        raise DataError(card.unsupported)
    return card


def places(card: DatasetCard, data_dir: Path) -> Iterator[tuple[Layout, Path]]:
    """Every form and folder in which the dataset may lie, the preferred one first."""
    for layout in card.layouts:
        for folder in layout.folders:
            yield layout, data_dir / folder


def is_official(path: Path, checksum: str) -> bool:
    """Whether the file is byte for byte the published one; a file that did not change is hashed only once."""
    try:
        status = path.stat()
        return _digest(path, checksum.partition(":")[0], status.st_size, status.st_mtime_ns) == checksum
    except OSError:
        return False


@cache
def _digest(path: Path, algorithm: str, size: int, modified: int) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def _nearest_place(card: DatasetCard, data_dir: Path) -> tuple[Layout, Path]:
    """Where the fewest files are missing, so that an incomplete copy is named by the files it lacks."""
    return min(places(card, data_dir), key=lambda place: len(_missing(*place)))


def _missing(layout: Layout, folder: Path) -> list[str]:
    return [file.name for file in layout.files if not (folder / file.name).is_file()]


def _folders(card: DatasetCard, data_dir: Path) -> list[str]:
    return list(dict.fromkeys(str(folder) for _, folder in places(card, data_dir)))


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _read(card: DatasetCard, layout: Layout, path: Path) -> Parts:
    try:
        parts = layout.read(path)
    except DataError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside the libraries that parse it
        reason = " ".join(str(error).split()) or type(error).__name__
        raise bad_file(path, f"damaged, or not in the expected format ({reason})") from error
    for role, array in parts.items():
        if problem := _problem(card, role, array):
            raise bad_file(path, f"{role} {problem}")
    _compare_counts(path, parts)
    return parts


def _problem(card: DatasetCard, role: str, array: Array) -> str | None:
    """What is wrong with an array for this dataset, if anything."""
    if array.ndim == 0 or len(array) == 0:
        return "are empty"
    if role.endswith("images"):
        if array.dtype != np.uint8:
            return f"are {array.dtype}, expected uint8"
        if array.shape[1:] != (card.channels, card.size, card.size):
            return f"have the shape {array.shape}, expected (N, {card.channels}, {card.size}, {card.size})"
        return None
    if array.dtype.kind not in "iu":
        return f"are {array.dtype}, expected integers"
    if array.ndim != 1:
        return f"have the shape {array.shape}, expected one label per image"
    highest = len(card.classes) - 1
    if array.min() < 0 or array.max() > highest:
        return f"run from {array.min()} to {array.max()}, expected 0 to {highest}"
    return None


def _compare_counts(where: Path, parts: Parts) -> None:
    for split in ("train", "test"):
        images, labels = parts.get(f"{split}_images"), parts.get(f"{split}_labels")
        if images is not None and labels is not None and len(images) != len(labels):
            raise bad_file(where, f"{len(images)} {split} images but {len(labels)} {split} labels")


def _join(folder: Path, files: list[Parts]) -> Parts:
    """The parts of all files, those of the same role one after the other."""
    joined: Parts = {}
    for role in ("train_images", "train_labels", "test_images", "test_labels"):
        arrays = [parts[role] for parts in files if role in parts]
        count = sum(len(array) for array in arrays)
        # Written into a fresh array, so that the result is contiguous whatever the order of the source.
        dtype = np.uint8 if role.endswith("images") else np.int64
        joined[role] = np.concatenate(
            arrays, out=np.empty((count, *arrays[0].shape[1:]), dtype), casting="same_kind"
        )
    _compare_counts(folder, joined)
    return joined


def _dataset(card: DatasetCard, parts: Parts) -> Dataset:
    return Dataset(
        name=card.name,
        classes=card.classes,
        mean=card.mean,
        std=card.std,
        **{role: torch.from_numpy(array) for role, array in parts.items()},
    )
