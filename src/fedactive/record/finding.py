"""Find runs: in run folders, in folders of them, and in results files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedactive.errors import RunError
from fedactive.files import expand_home
from fedactive.record.results_file import FILE, KIND, Found, read_results
from fedactive.record.run_reader import read_run
from fedactive.record.tables import DamagedError, Skipped

THREADS = 2  # more are no faster, because half of the work is in Python


def runs_in(place: str | Path) -> Found:
    """Read all runs in a folder or a results file, which must be there."""
    place = expand_home(place)
    if not place.is_dir() and not is_results_file(place):
        raise RunError(f"{place} {'is not a folder' if place.exists() else 'does not exist'}")
    return find_runs([place])


def is_results_file(place: Path) -> bool:
    return place.is_file() and place.suffix == KIND


def find_runs(paths: Sequence[str | Path]) -> Found:
    """Read all runs in these paths; `skipped` lists damaged runs and other folders."""
    found = Found([], [])
    with ThreadPoolExecutor(THREADS) as pool:
        for runs, skipped in pool.map(_read, list(_places(map(expand_home, paths), found.skipped))):
            found.runs.extend(runs)
            found.skipped.extend(skipped)
    return found


def _read(place: Path) -> Found:
    found = Found([], [])
    try:
        if (place / "experiment.toml").exists():
            found.runs.append(read_run(place))
    except DamagedError as error:
        found.skipped.append((error.where, error.what))
    try:
        runs, skipped = read_results(place)
        found.runs.extend(runs)
        found.skipped.extend(skipped)
    except DamagedError as error:
        found.skipped.append((error.where, error.what))
    return found if found.runs or found.skipped else Found([], [(place, "holds no runs")])


def _places(paths: Iterable[Path], skipped: Skipped) -> Iterator[Path]:
    """Yield run folders and results files: each path itself, or those in it."""
    seen = set()
    for path in paths:
        try:
            folders = [] if _problem(path) else [path]
            if not (is_results_file(path) or (path / "experiment.toml").exists()):
                # `logs` and hidden folders such as .first-rounds are beside runs.
                others = (
                    f for f in sorted(path.iterdir()) if f.name not in ("logs", FILE) and f.name[0] != "."
                )
                folders += (f for f in others if f.is_dir() or is_results_file(f))
        except OSError as error:
            skipped.append((path, f"cannot be opened: {error.strerror}"))
            continue
        if not folders:
            skipped.append((path, "is not a run folder (it has no experiment.toml) and holds no runs"))
        for folder in folders:
            if problem := _problem(folder):
                skipped.append((folder, problem))
            elif (real := folder.resolve()) not in seen:
                seen.add(real)
                yield folder


def _problem(folder: Path) -> str:
    """Say why there are no runs directly in this folder; empty if there are."""
    try:
        here = is_results_file(folder)
        here = here or any((folder / name).exists() for name in ("experiment.toml", FILE))
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not here and any(folder.glob("*/experiment.toml")):
        return "is a folder of runs; name it, too, to read them"
    return "" if here else "is not a run folder: it has no experiment.toml"
