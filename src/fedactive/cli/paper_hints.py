"""What `fedactive paper` says where runs are missing or cannot be compared: why, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedactive.cli.paper_options import CHANGEABLE, RUNS, as_options
from fedactive.experiment import Experiment
from fedactive.paper.reproduce import experiments, first_percent
from fedactive.paper.settings import PAPER, all_settings
from fedactive.paper.tables import cells
from fedactive.record.archive import Archive, key_without_seed
from fedactive.record.stored import DEFAULTS, Identity, StoredRun

HEADS = {"head=released": "released", "head=global": "global"}  # what --alfamix-head makes of its options


def explain_missing(
    name: str, source: Path, runs: list[StoredRun], rows: dict[str, Any], changes: dict[str, Any]
) -> str:
    """Say why a table has none of our numbers, and what to do."""
    archive, first = Archive(runs), first_percent(name, rows["datasets"])
    made = any(archive.find(experiment) for experiment in experiments(name, **rows, **changes))
    if made and name == "penalty":
        return f"who beats whom is tested over two seeds or more; of each in {source} only one is used"
    if made and first:
        asked = {option: ",".join(values) for option, values in rows.items() if values}
        there = {} if source == RUNS else {"runs_dir": source}
        again = f"fedactive paper run {name}{as_options(changes | asked | there)}"
        return (
            f"the runs of this table in {source} end before {first:g}% labelled, where the paper's numbers "
            f"begin; `{again}` without --until prolongs them"
        )
    missing = f"no runs of this table in {source}; `fedactive paper run {name}` makes them"
    hint = hint_at_options(experiments(name, **rows), runs, changes)
    return f"{missing}\n{hint}: show needs the same" if hint else missing


def experiments_drawn(table: str, setting: int | None) -> list[Experiment]:
    """List those of a table, or of one setting and its twin with the other selector, drawn together."""
    if setting is None:
        return experiments(table)
    title = all_settings()[setting - 1].title
    twins = [twin.number for twin in all_settings() if twin.title == title]
    return [cell.experiment for cell in cells("penalty") if cell.columns["setting"] in twins]


def settings_beyond(
    until: float | None, chosen: Container[int] | None, datasets: Sequence[str] | None
) -> list[str]:
    """List the numbers of the settings, of those that were chosen, whose first budget is beyond `until`."""
    return [
        str(s.number)
        for s in all_settings()
        if (until is not None and s.budget > until)
        and (chosen is None or s.number in chosen)
        and (datasets is None or s.dataset in datasets)
    ]


def warn_of_unequal(settings: dict[str, int]) -> None:
    """Warn where strategies have runs in different numbers of settings."""
    if len(set(settings.values())) > 1:
        counts = ", ".join(f"{strategy} {count}" for strategy, count in settings.items())
        remark = "compare only strategies that have the same"
        print(f"settings with runs of two seeds: {counts}; {remark}", file=sys.stderr)


def hint_at_options(wanted: Sequence[Experiment], runs: Sequence[StoredRun], changes: dict[str, Any]) -> str:
    """Say with which other options there are runs of these experiments; empty if there are none."""
    paper = DEFAULTS | PAPER | {"alfamix_head": "own"}

    def unchangeable(settings: Mapping[str, Any]) -> Identity:
        given = settings["strategy_options"]
        same = dict(settings) | {"strategy_options": "" if given in HEADS else given}
        return tuple(pair for pair in key_without_seed(same) if pair[0] not in CHANGEABLE)

    def options(settings: dict[str, Any]) -> str:
        made = {"alfamix_head": HEADS.get(settings["strategy_options"], "own")} | settings
        return as_options({n: made[n] for n in (*CHANGEABLE, "alfamix_head") if made[n] != paper[n]}).strip()

    needed = {unchangeable(vars(experiment)) for experiment in wanted}
    usable = [settings for run in runs if unchangeable(settings := dict(run.identity)) in needed]
    made_with = {options(settings) for settings in usable} - {options(paper | changes), ""}
    return f"there are runs made with {' or '.join(sorted(made_with))}" if made_with else ""
