"""Where runs are: in run folders, in folders of them, and in results files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedactive.errors import RunError
from fedactive.files import expand_home
from fedactive.record.folder_reader import run_folder
from fedactive.record.reading import Skipped, predicate
from fedactive.record.results_file import FILE, read_results
from fedactive.record.stored import StoredRun

THREADS = 2  # more are no faster, as half of the work is Python's


def stored_runs(folder: str | Path) -> list[StoredRun]:
    """All runs in a folder, read when needed."""
    folder = expand_home(folder)
    if not folder.is_dir():
        raise RunError(f"{folder} {'is no folder' if folder.exists() else 'does not exist'}")
    return [run for place in _places([folder], []) for run in _runs_at(place)]


def read_all(paths: Sequence[str | Path]) -> tuple[list[StoredRun], Skipped]:
    """All runs in these paths, read, and what else is there; a damaged run is no obstacle to the others."""
    runs: list[StoredRun] = []
    skipped: Skipped = []
    with ThreadPoolExecutor(THREADS) as pool:
        for usable, problems in pool.map(_read, list(_places(map(expand_home, paths), skipped))):
            runs += usable
            skipped += problems
    return runs, skipped


def _read(place: Path) -> tuple[list[StoredRun], Skipped]:
    try:
        runs = _runs_at(place)
        for run in runs:
            _ = run.content
        return runs, [] if runs else [(place, "holds no runs")]
    except RunError as error:
        return [], [(place, predicate(error, place))]
    except OSError as error:
        return [], [(place, f"cannot be opened: {error.strerror}")]


def _runs_at(place: Path) -> list[StoredRun]:
    own = [run_folder(place)] if (place / "experiment.toml").exists() else []
    return [*own, *read_results(place)]


def _places(paths: Iterable[Path], skipped: Skipped) -> Iterator[Path]:
    """Run folders and folders with a results file: each path itself, or those in it."""
    seen = set()
    for path in paths:
        try:
            folders = [] if _problem(path) else [path]
            if not (path / "experiment.toml").exists():
                folders += [folder for folder in sorted(path.iterdir()) if folder.is_dir()]
        except OSError as error:
            skipped.append((path, f"cannot be opened: {error.strerror}"))
            continue
        # `logs` and hidden folders such as .first-rounds lie beside runs.
        folders = [f for f in folders if f == path or (f.name != "logs" and f.name[0] != ".")]
        if not folders:
            skipped.append((path, "is no run folder (it has no experiment.toml) and holds no runs"))
        for folder in folders:
            if problem := _problem(folder):
                skipped.append((folder, problem))
            elif (real := folder.resolve()) not in seen:
                seen.add(real)
                yield folder


def _problem(folder: Path) -> str:
    """Why there are no runs right here, if so."""
    try:
        here = any((folder / name).exists() for name in ("experiment.toml", FILE))
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not here and any(folder.glob("*/experiment.toml")):
        return "is a folder of runs; name it, too, to have them"
    return "" if here else "is no run folder: it has no experiment.toml"
