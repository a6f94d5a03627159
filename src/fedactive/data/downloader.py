"""Download official files: first into a scratch folder, then into place once their checksums are right."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fedactive.data.catalog import DatasetCard, OfficialFile
from fedactive.data.checksum import is_official
from fedactive.data.loader import find_card, not_official, places
from fedactive.errors import DataError, UserError
from fedactive.files import expand_home

if TYPE_CHECKING:
    from rich.progress import Progress


def download(name: str, data_dir: str | Path, progress: Progress | None = None) -> str:
    """Download the official files of a dataset below `data_dir`; return a sentence that says what was done.

    Files that are already official stay; others of the same name are replaced. If anything goes wrong, no
    partial file is left under the name of a dataset's file.
    """
    card, data_dir = find_card(name), expand_home(data_dir)
    if not card.layouts:
        return f"{name} comes with the package, there is nothing to download"
    for layout, folder in places(card, data_dir):
        if not not_official(layout, folder):
            return f"{name} is already in {folder} with the official checksums, nothing was downloaded"
    layout = card.layouts[0]
    target = data_dir / layout.folders[0]
    wanted = not_official(layout, target)
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fedactive-", dir=data_dir) as scratch:
            arrived = _fetch_all(card, wanted, Path(scratch), progress)
            target.mkdir(exist_ok=True)
            for path in arrived:
                os.replace(path, target / path.name)
    except OSError as error:  # the network, a full disk or a folder without permission
        source = card.archive or wanted[0]
        raise DataError(
            f"{name} could not be downloaded from {source.url} to {data_dir}: {_root_cause(error)}"
        ) from error
    return f"{name} is now in {target}, with the official checksums"


def _fetch_all(
    card: DatasetCard, wanted: list[OfficialFile], scratch: Path, progress: Progress | None
) -> list[Path]:
    if card.archive is None:
        return [_fetch(file, scratch, progress) for file in wanted]
    archive = _fetch(card.archive, scratch, progress)
    return _extract(archive, card.layouts[0].folders[0], wanted, scratch)


def _fetch(file: OfficialFile, scratch: Path, progress: Progress | None) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise UserError("downloading needs the Python package pooch, which is not installed") from error

    path = scratch / file.name
    bar = _Bar(progress, file.name) if progress is not None else False
    pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16)(file.url, str(path), None)
    _verify(path, file, source=file.url)
    return path


def _extract(archive: Path, folder: str, wanted: list[OfficialFile], scratch: Path) -> list[Path]:
    """Copy the wanted files out of the archive by name; nothing else in it is written to disk."""
    paths = []
    with tarfile.open(archive) as members:
        for file in wanted:
            try:
                source = members.extractfile(f"{folder}/{file.name}")
            except KeyError:
                source = None
            if source is None:
                raise DataError(f"{archive.name} does not hold the file {folder}/{file.name}")
            path = scratch / file.name
            with source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            _verify(path, file, source=f"{file.name} of {archive.name}")
            paths.append(path)
    return paths


def _verify(path: Path, file: OfficialFile, source: str) -> None:
    if not is_official(path, file.checksum):
        raise DataError(f"{source} does not have the official checksum {file.checksum}; it was not kept")


def _root_cause(error: BaseException) -> BaseException:
    """Find the innermost error, such as "Connection refused": the ones around it only repeat it at length."""
    while deeper := error.__cause__ or error.__context__:
        error = deeper
    return error


class _Bar:
    """The few methods of a tqdm bar that pooch calls, drawn with rich."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=None)

    def _set_total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)  # zero if the server did not say

    total = property(fset=_set_total)

    def update(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop_task(self._task)
