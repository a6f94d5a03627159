"""The options of `fedactive paper`, each written once: which rows are meant, and how runs differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedactive.cli.options import completion, flag
from fedactive.data.catalog import DATASETS
from fedactive.errors import ConfigurationError
from fedactive.files import quote
from fedactive.registry import STRATEGIES

# The names that `fedactive.paper` knows, which needs pandas. A test compares them.
TABLES = ("accuracy", "ensembles", "algorithms", "emd", "observation", "penalty", "cost")
FIGURES = ("observation", "matrices", "bars", "penalty", "curves", "clients", "cost")
CATEGORIES = (
    "overall",
    "query selector",
    "heterogeneity",
    "imbalance",
    "architecture",
    "budget",
    "initialisation",
)
RUNS = Path("runs")  # where `run` makes its runs, and the others look for them


def name_of(names: tuple[str, ...]) -> Any:
    """The argument NAME of a command that takes one of these."""
    return typer.Argument(
        help="One of " + ", ".join(names) + ".", metavar="NAME", autocompletion=completion(names)
    )


TableName = Annotated[str, name_of(TABLES)]
FigureName = Annotated[str, name_of(FIGURES)]
Source = Annotated[
    Path, typer.Option("--from", help="Read runs from this folder of run folders or of exported results.")
]
DatasetsOption = typer.Option(
    help="Take only these datasets, separated by commas.", autocompletion=completion(DATASETS)
)
StrategiesOption = typer.Option(
    help="Take only these strategies, separated by commas.", autocompletion=completion(STRATEGIES.ours)
)
AlfaMixOption = typer.Option(
    help="own, or global as in the released code: the head that ALFA-Mix uses with the local-only model."
)

SEEDS = flag("seeds", Annotated[int | None, typer.Option(help="Take only the first so many seeds.", min=1)])
# Which rows of a table: of `run` and `show`.
ROWS = (
    flag("until", Annotated[float | None, typer.Option(help="Stop at this percent labelled.")]),
    flag("datasets", Annotated[str | None, DatasetsOption]),
    flag("strategies", Annotated[str | None, StrategiesOption]),
)
# How runs may differ from the paper's: `show` and `figure` find them again by the same options.
CHANGES = (
    flag("fl_rounds", Annotated[int | None, typer.Option(help="FL rounds per AL round, instead of 100.")]),
    flag(
        "partition",
        Annotated[str | None, typer.Option(help="transport, or reference: the released code's clients.")],
    ),
    flag(
        "schedule",
        Annotated[str | None, typer.Option(help="paper, or reference: the released code's learning rates.")],
    ),
    flag("precision", Annotated[str | None, typer.Option(help="fp32, tf32 or bf16.")]),
    flag("alfamix_head", Annotated[str | None, AlfaMixOption]),
)
CHANGEABLE = tuple(change.name for change in CHANGES[:-1])  # those that are settings of Experiment


def changes_of(flags: dict[str, Any]) -> dict[str, Any]:
    """How runs differ from the paper's: settings of Experiment, and ALFA-Mix's head."""
    return {change.name: value for change in CHANGES if (value := flags[change.name]) is not None}


def rows_of(flags: dict[str, Any]) -> dict[str, Any]:
    """Which rows of a table are meant, as lists of names."""
    return {name: split_names(flags[name]) for name in ("datasets", "strategies")}


def as_options(changes: dict[str, Any]) -> str:
    """The same as flags, for a command that is printed."""
    return "".join(f" --{name.replace('_', '-')} {quote(value)}" for name, value in changes.items())


def split_names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def split_numbers(option: str, text: str | None) -> list[float] | None:
    try:
        return [float(word) for word in text.split(",")] if text else None
    except ValueError:
        raise ConfigurationError(option, text, "numbers separated by commas, or inf") from None
