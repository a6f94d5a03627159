"""Gather runs from anywhere in a results file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedactive.errors import RunError
from fedactive.record.finding import find_runs
from fedactive.record.results_file import FILE, read_results, write_results
from fedactive.record.stored import StoredRun, agree, drop_copies
from fedactive.record.tables import Skipped, summarise


class Exported(NamedTuple):
    runs: int  # now in the file
    added: int
    replaced: int  # by one that got as far or further
    changed: Skipped  # those among them that had other results
    skipped: Skipped


def export(sources: Sequence[Path], folder: Path) -> Exported:
    """Add the runs in `sources` (run folders, folders of them, results folders) to the folder's results file.

    A run that is there already is replaced, unless the one in the file got further.
    """
    found, skipped = find_runs(sources)
    skipped += [run.remark(problem) for run in found if (problem := _problem(run))]
    given, _, conflicts = drop_copies(run for run in found if not _problem(run))
    skipped += conflicts
    there = read_results(folder)
    skipped += there.skipped
    kept = {run.identity: run for run in there.runs}
    if newer := [run for run in there.runs if run.unknown]:
        raise RunError(f"{folder / FILE} is not changed: {newer[0].name} {_problem(newer[0])}")
    before = len(kept)
    new = {i: run for i, run in given.items() if i not in kept or run.progress >= kept[i].progress}
    replaced = new.keys() & kept.keys()
    other = f"replaces the same run in {folder / FILE}, which had other results"
    changed = [new[i].remark(other) for i in new if i in replaced and not agree(new[i], kept[i])]
    for identity in given.keys() - new.keys():
        skipped.append(given[identity].remark(f"got less far than the same run in {folder / FILE}"))
    kept |= new
    if not kept:
        raise RunError(f"there is no run to export: {summarise(skipped)}")
    write_results(kept.values(), folder)
    return Exported(len(kept), len(kept) - before, len(replaced), changed, skipped)


def _problem(run: StoredRun) -> str:
    """Why the run cannot be exported, if so."""
    if run.unknown:
        return run.unknown_settings
    return "" if run.rounds else "has not completed an AL round yet"
