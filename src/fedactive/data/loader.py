"""Load a dataset by its name: find the files, read them, and check all that was read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fedactive.data.catalog import DATASETS, DatasetCard, Layout, OfficialFile
from fedactive.data.checksum import is_official
from fedactive.data.dataset import Dataset
from fedactive.data.own_data import OwnData, find_own
from fedactive.data.own_file import TEST_SHARE, is_own_file
from fedactive.data.own_pictures import OwnPictures
from fedactive.data.readers import Parts
from fedactive.data.report import Report, say_nothing
from fedactive.data.soundness import form, guarded, join, require_sound
from fedactive.errors import DataError, unknown_name
from fedactive.files import expand_home, quote


class DataWarning(UserWarning):
    """Data that can be used but is not what its authors published."""


@dataclass(frozen=True)
class FileReport:
    """What `check` found about one file."""

    path: Path
    checksum: Literal["official", "different", "missing", "own"]  # own: a file of the user, never published
    problem: str | None  # why the file cannot be used; None if it can
    content: str = ""  # what is in a file of the user's own

    @property
    def remark(self) -> str:
        """The end of a sentence about the file."""
        official = {"official": "the official one", "different": "not the official one"}
        known = f"its checksum is {official[self.checksum]}" if self.checksum in official else self.content
        return f", {known}" if known else ""


def load(
    name: str,
    data_dir: str | Path,
    sha256: str = "",
    image_size: int = 0,
    test_share: float = TEST_SHARE,
    report: Report = say_nothing,
) -> Dataset:
    """Read a dataset from the files below `data_dir`; warn if they are not the official ones.

    The name may be the path of the user's own; `sha256`, if given, must match its content.
    Image files are decoded at `image_size`; without it all must have one size.
    """
    data_dir = expand_home(data_dir)
    if is_own_file(name):
        return find_own(name, data_dir, sha256, test_share).load(image_size, report)
    card = find_card(name)
    if card.built_in is not None:
        return _dataset(card, join(data_dir, [card.built_in()]))
    layout, folder = _nearest_place(card, data_dir)
    if missing := _missing(layout, folder):
        raise DataError(
            f"{name}: {', '.join(missing)} not found (looked in {', '.join(_folders(card, data_dir))}); "
            f"get it with: fedactive data get {name} --data-dir {quote(data_dir)}"
        )
    parts = join(folder, [_read(card, layout, folder / file.name) for file in layout.files])
    if foreign := ", ".join(file.name for file in not_official(layout, folder)):
        warnings.warn(
            f"{name}: not the official checksum, used because it reads well: {foreign} in {folder}",
            DataWarning,
            stacklevel=2,
        )
    return _dataset(card, parts)


def check(name: str, data_dir: str | Path) -> list[FileReport]:
    """Check every file of a dataset, also after a bad one; a built-in dataset has no files."""
    data_dir = expand_home(data_dir)
    if is_own_file(name):
        return [_check_own_data(name, find_own(name, data_dir))]
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
            join(folder, readable)
        except DataError as error:  # each file is sound, but they do not fit together
            reports = [replace(report, problem=str(error)) for report in reports]
    return reports


def _check_own_data(name: str, own: OwnData) -> FileReport:
    path = Path(name)
    try:
        if isinstance(own, OwnPictures):  # of any sizes, and none is decoded
            return FileReport(path, "own", None, own.describe())
        d = own.load(0, say_nothing)
    except DataError as error:
        return FileReport(path, "own", str(error).removeprefix(f"{path}: "))
    counts = f"{len(d.train_inputs)} training and {len(d.test_inputs)} test"
    images = len(d.input_shape) == 3
    what = f"images of {form(d.input_shape)}" if images else f"samples of {d.input_shape[0]} features"
    content = f"{counts} {what}, {len(d.classes)} classes"
    if d.train_clients is not None:
        content += f", {int(d.train_clients.max()) + 1} clients"
    return FileReport(path, "own", None, content)


def find_classes(name: str, data_dir: Path, sha256: str = "") -> tuple[str, ...]:
    """Return the names of a dataset's classes, without reading its images."""
    if is_own_file(name):
        return find_own(name, data_dir, sha256).classes
    return find_card(name).classes


def find_card(name: str) -> DatasetCard:
    """Return the catalogue's entry of a dataset; DataError if it cannot be used."""
    if name not in DATASETS:
        raise unknown_name("dataset", name, DATASETS)
    card = DATASETS[name]
    if card.unsupported:
        raise DataError(card.unsupported)
    return card


def places(card: DatasetCard, data_dir: Path) -> Iterator[tuple[Layout, Path]]:
    """Yield every layout and folder in which the dataset may be, the preferred ones first."""
    for layout in card.layouts:
        for folder in layout.folders:
            yield layout, data_dir / folder


def _nearest_place(card: DatasetCard, data_dir: Path) -> tuple[Layout, Path]:
    """Find where the fewest files are missing, so that the error for an incomplete copy names what it lacks.

    Among several complete copies prefer the official one: another may be damaged.
    """
    lacking = {place: len(_missing(*place)) for place in places(card, data_dir)}
    nearest = [place for place, count in lacking.items() if count == min(lacking.values())]
    return next((place for place in nearest if not not_official(*place)), nearest[0])


def not_official(layout: Layout, folder: Path) -> list[OfficialFile]:
    return [file for file in layout.files if not is_official(folder / file.name, file.checksum)]


def _missing(layout: Layout, folder: Path) -> list[str]:
    return [file.name for file in layout.files if not (folder / file.name).is_file()]


def _folders(card: DatasetCard, data_dir: Path) -> list[str]:
    return list(dict.fromkeys(str(folder) for _, folder in places(card, data_dir)))


def _read(card: DatasetCard, layout: Layout, path: Path) -> Parts:
    parts = guarded(layout.read, path)
    require_sound(path, parts, (card.channels, card.size, card.size), len(card.classes))
    return parts


def _dataset(card: DatasetCard, parts: Parts) -> Dataset:
    return Dataset.of_images(card.name, parts, card.classes, card.mean, card.std)
