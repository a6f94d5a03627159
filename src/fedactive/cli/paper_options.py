"""The options of `fedactive paper`, each written once: which rows are meant, and how runs differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedactive.cli.options import completion, flag, name_argument
from fedactive.data.catalog import DATASETS
from fedactive.errors import ConfigurationError
from fedactive.files import quote
from fedactive.paper import FIGURES, TABLES
from fedactive.paper.settings import seed_range
from fedactive.registry import STRATEGIES

RUNS = Path("runs")  # where `run` makes its runs, and the others look for them


TableName = Annotated[str, name_argument(f"One of {', '.join(TABLES)}.", TABLES)]
FigureName = Annotated[str, name_argument(f"One of {', '.join(FIGURES)}.", FIGURES)]
Source = Annotated[
    Path,
    typer.Option(
        "--from", help="Read runs from here: a folder of run folders, or exported results (folder or file)."
    ),
]

SEEDS = flag("seeds", str, "Take only these seeds: 4 is the first four, 5-16 is from 5 to 16.")
THRESHOLD = flag(
    "threshold",
    str,
    "From which t-score on a strategy wins: exact for the number of seeds, or paper, which is 2.776. For "
    "penalty, bars and observation.",
)
# Which rows of a table: of `run` and `show`.
ROWS = (
    flag("until", float, "Stop at this percent labelled."),
    *(
        flag(name, str, f"Take only these {name}, separated by commas.", autocompletion=completion(known))
        for name, known in (("datasets", DATASETS), ("strategies", STRATEGIES.ours))
    ),
)
# How runs may differ from the paper's: `show` and `figure` find them again by the same options.
CHANGES = (
    flag("fl_rounds", int, "FL rounds per AL round, instead of 100."),
    flag("partition", str, "transport, or reference: the released code's clients."),
    flag("schedule", str, "paper, or reference: the released code's learning rates."),
    flag("precision", str, "fp32, tf32 or bf16."),
    flag("scored_images", str, "own, or other_of_class: in long tails strategies see other images."),
    flag(
        "alfamix_head",
        str,
        "own; released, as in the released code; or global, an earlier version of that: "
        "the head that ALFA-Mix uses with the local-only model.",
    ),
)
CHANGEABLE = tuple(change.name for change in CHANGES[:-1])  # those that are settings of Experiment


def changes_of(flags: dict[str, Any]) -> dict[str, Any]:
    """Return how runs differ from the paper's: settings of Experiment, and ALFA-Mix's head."""
    return {change.name: value for change in CHANGES if (value := flags[change.name]) is not None}


def rows_of(flags: dict[str, Any]) -> dict[str, Any]:
    """Return which rows of a table are meant, as lists of names."""
    return {
        option: [name.strip() for name in text.split(",")] if (text := flags[option]) else None
        for option in ("datasets", "strategies")
    }


def threshold_of(flags: dict[str, Any]) -> dict[str, str]:
    return {} if flags["threshold"] is None else {"threshold": flags["threshold"]}


def seeds_of(flags: dict[str, Any]) -> range | None:
    return None if flags["seeds"] is None else seed_range(flags["seeds"])


def as_options(changes: dict[str, Any]) -> str:
    """Write settings as flags, for a command that is printed."""
    return "".join(f" --{name.replace('_', '-')} {quote(value)}" for name, value in changes.items())


def split_numbers(option: str, text: str | None) -> list[float] | None:
    try:
        return [float(word) for word in text.split(",")] if text else None
    except ValueError:
        raise ConfigurationError(option, text, "numbers separated by commas, or inf") from None
