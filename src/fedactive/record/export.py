"""Collect runs in a results file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedactive.errors import RunError
from fedactive.files import expand_home
from fedactive.record.finding import find_runs
from fedactive.record.results_file import read_results, results_file, write_results
from fedactive.record.stored import StoredRun, agree, drop_copies
from fedactive.record.tables import Skipped, summarise


class Exported(NamedTuple):
    runs: int  # in the file now
    added: int
    replaced: int  # by a copy that got as far or further
    changed: Skipped  # replaced ones that had other results
    skipped: Skipped


def export(sources: Sequence[str | Path], place: str | Path) -> Exported:
    """Add the runs in `sources` (run folders, folders of them, of results, files) to a results file.

    That is the file of this name, or the one in the folder.

    A run that the file has already is replaced, unless the one in the file got further.
    """
    place = expand_home(place)
    found, skipped = find_runs([*map(expand_home, sources)])
    skipped += [run.remark(problem) for run in found if (problem := _problem(run))]
    given, _, conflicts = drop_copies(run for run in found if not _problem(run))
    file, there = results_file(place), read_results(place)
    skipped += conflicts + there.skipped
    if newer := [run for run in there.runs if run.unknown]:
        raise RunError(f"{file} is not changed: {newer[0].name} {_problem(newer[0])}")
    before = {run.identity: run for run in there.runs}
    new = {i: run for i, run in given.items() if i not in before or run.progress >= before[i].progress}
    replaced = new.keys() & before.keys()
    other = f"replaces the same run in {file}, which had other results"
    changed = [new[i].remark(other) for i in new if i in replaced and not agree(new[i], before[i])]
    shorter = given.keys() - new.keys()
    skipped += [given[i].remark(f"got less far than the same run in {file}") for i in shorter]
    after = before | new
    if not after:
        raise RunError(f"there is no run to export: {summarise(skipped)}")
    write_results(after.values(), place)
    return Exported(len(after), len(after) - len(before), len(replaced), changed, skipped)


def _problem(run: StoredRun) -> str:
    """Say why the run cannot be exported; empty if it can."""
    if run.unknown:
        return run.unknown_settings
    return "" if run.rounds else "has not completed an AL round yet"
