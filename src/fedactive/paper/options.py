"""The options of `fedactive paper`: what of a table is meant, and in what runs differ from the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedactive.analysis.stored import DEFAULTS, Identity, StoredRun
from fedactive.errors import ConfigurationError
from fedactive.experiment import Experiment
from fedactive.files import typed
from fedactive.paper.archive import key
from fedactive.paper.reproduce import NAMES
from fedactive.paper.settings import PAPER

Name = Annotated[str, typer.Argument(help="one of " + ", ".join(NAMES), metavar="NAME")]
Until = Annotated[float | None, typer.Option(help="stop at this percent labelled")]
# How runs may differ from the paper's: `show` and `figure` find them again by the same options.
CHANGEABLE = ("fl_rounds", "partition", "schedule", "precision")
RELEASED_HEAD = "head=global"  # what --alfamix-head global makes of ALFA-Mix's options
FlRounds = Annotated[int | None, typer.Option(help="FL rounds per AL round, instead of the paper's 100")]
Partition = Annotated[str | None, typer.Option(help="transport or reference, the released code's clients")]
Schedule = Annotated[str | None, typer.Option(help="paper or reference, the released code's learning rates")]
Precision = Annotated[str | None, typer.Option(help="fp32, tf32 or bf16")]
AlfaMixHead = Annotated[
    str | None, typer.Option(help="own or global, the released code's, for ALFA-Mix by the local-only model")
]
Seeds = Annotated[int | None, typer.Option(help="only the first so many seeds", min=1)]
Datasets = Annotated[str | None, typer.Option(help="only these datasets, separated by commas")]
Strategies = Annotated[str | None, typer.Option(help="only these strategies, separated by commas")]
RunsDir = Annotated[Path, typer.Option(help="folder of the run folders")]
Source = Annotated[Path, typer.Option("--from", help="folder of run folders, or of exported results")]
DataDir = Annotated[Path, typer.Option(help="folder of the datasets")]


def changed(*given: int | str | None) -> dict[str, Any]:
    """In what runs differ from the paper's: settings of Experiment, and ALFA-Mix's head."""
    named = zip((*CHANGEABLE, "alfamix_head"), given, strict=True)
    return {name: value for name, value in named if value is not None}


def as_options(changes: dict[str, Any]) -> str:
    return "".join(f" --{name.replace('_', '-')} {typed(value)}" for name, value in changes.items())


def of_other_options(wanted: Sequence[Experiment], runs: Sequence[StoredRun], changes: dict[str, Any]) -> str:
    """How runs of these experiments of the paper were made that are there but were not asked for, if so."""
    paper = DEFAULTS | PAPER | {"alfamix_head": "own"}

    def unchangeable(settings: Mapping[str, Any]) -> Identity:
        same = dict(settings) | {"strategy_options": settings["strategy_options"].replace(RELEASED_HEAD, "")}
        return tuple(pair for pair in key(same) if pair[0] not in CHANGEABLE)

    def options(settings: dict[str, Any]) -> str:
        head = "global" if settings["strategy_options"] == RELEASED_HEAD else "own"
        made = {"alfamix_head": head} | settings
        return as_options({n: made[n] for n in (*CHANGEABLE, "alfamix_head") if made[n] != paper[n]}).strip()

    needed = {unchangeable(vars(experiment)) for experiment in wanted}
    usable = [settings for run in runs if unchangeable(settings := dict(run.identity)) in needed]
    made_with = {options(settings) for settings in usable} - {options(paper | changes), ""}
    return f"there are runs made with {' or '.join(sorted(made_with))}" if made_with else ""


def names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def numbers(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(option, text, "numbers separated by commas, or inf") from None
