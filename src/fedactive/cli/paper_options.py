"""The options of `fedactive paper`: what of a table is meant, and in what runs differ from the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedactive.errors import ConfigurationError
from fedactive.files import quote
from fedactive.paper.reproduce import NAMES

Name = Annotated[str, typer.Argument(help="one of " + ", ".join(NAMES), metavar="NAME")]
Until = Annotated[float | None, typer.Option(help="stop at this percent labelled")]
RUNS = Path("runs")  # where `run` makes its runs, and the others look for them
# How runs may differ from the paper's: `show` and `figure` find them again by the same options.
CHANGEABLE = ("fl_rounds", "partition", "schedule", "precision")
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
    return "".join(f" --{name.replace('_', '-')} {quote(value)}" for name, value in changes.items())


def names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def numbers(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(option, text, "numbers separated by commas, or inf") from None
