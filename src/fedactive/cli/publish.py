"""`fedactive table` and `fedactive figure`: from any runs to what a paper needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedactive.cli.options import LABORATORY, completion, example, print_remarks
from fedactive.errors import ConfigurationError, unknown_name
from fedactive.files import write_output

if TYPE_CHECKING:
    from fedactive.analysis.results import Runs

app = typer.Typer()

KINDS = ("curves", "ranks", "balance", "cost")  # of pictures, as in analysis/figures.py
FORMATS = ("markdown", "latex", "csv")
METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "loss")  # as in record/schema.py

RunPaths = Annotated[
    list[Path],
    typer.Argument(help="Run folders, folders of run folders, or exported results.", metavar="RUNS..."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Take only runs with this setting, as in dataset=svhn,cifar10 (repeatable)."),
]
By = Annotated[
    str | None,
    typer.Option(help="Compare these settings as strategies are compared, as in algorithm,objective."),
]
MetricName = Annotated[
    str, typer.Option(help=f"One of {', '.join(METRICS)}.", autocompletion=completion(METRICS))
]


@app.command(rich_help_panel=LABORATORY, epilog=example("fedactive table runs --at 10,20 -o table.tex"))
def table(
    runs: RunPaths,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"One of {', '.join(FORMATS)}; by default what the file's ending says.",
            autocompletion=completion(FORMATS),
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it into this file: .tex, .md or .csv.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Take these budgets, in percent or labels as they were given: 10,20.")
    ] = None,
    metric: MetricName = "accuracy",
    where: Where = None,
    by: By = None,
) -> None:
    """Write the table of a paper: mean ± deviation by strategy and budget, seeds stated, the best marked.

    Those that are not significantly worse than the best are marked, too, and a sentence that can be quoted
    says what is significant. Settings have a group of rows each.
    """
    from fedactive.analysis.quotable import significance_sentence
    from fedactive.analysis.result_table import result_tables
    from fedactive.analysis.table_forms import ENDINGS, FORMS

    form = form or ENDINGS.get(output.suffix.lower() if output else "", "markdown")
    if form not in FORMS:
        raise unknown_name("format", form, FORMS)
    budgets = numbers("at", at)
    found = read(runs, metric, where, by)
    tables = result_tables(found.curves, metric, budgets)
    text = FORMS[form](tables)
    if output is None:
        print(text, end="")
    else:
        write_output(output, text.encode())
        print(output)
    if output is not None or form == "csv":  # a table that is printed has the sentences in it
        to = sys.stderr if output is None else sys.stdout
        for made in tables:
            print(significance_sentence(made.curves, metric), file=to)


@app.command(rich_help_panel=LABORATORY, epilog=example("fedactive figure runs curves -o curves.pdf"))
def figure(
    runs: RunPaths,
    kind: Annotated[
        str, typer.Argument(help=f"One of {', '.join(KINDS)}.", autocompletion=completion(KINDS))
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write this picture, .pdf, .svg or .png.")],
    title: Annotated[str, typer.Option(help="Write this above the picture.")] = "",
    metric: MetricName = "accuracy",
    where: Where = None,
    by: By = None,
) -> None:
    """Draw runs for a paper: learning curves, mean ranks, class balance of the labels, or time by phase.

    Each setting has a panel of its own. The picture says what its bands are, and over which seeds.
    """
    if kind not in KINDS:
        raise unknown_name("figure", kind, KINDS)
    if kind in ("balance", "cost") and metric != "accuracy":
        raise ConfigurationError("figure", kind, "curves or ranks, with --metric")

    from fedactive.analysis.figures import DRAW

    DRAW[kind](read(runs, metric, where, by), metric, title, output)
    print(output)


def read(runs: list[Path], metric: str, where: list[str] | None, by: str | None) -> Runs:
    """Read the runs, and print what was skipped, and whether there are few seeds."""
    from fedactive.analysis.results import read_runs
    from fedactive.analysis.seeds import FEW_SEEDS, few_seeds

    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    found = read_runs(runs, where or (), [name.strip() for name in by.split(",")] if by else ())
    print_remarks("skipped", found.skipped)
    if few_seeds(found.curves):
        print(f"warning: {FEW_SEEDS}", file=sys.stderr)
    return found


def numbers(option: str, text: str | None) -> list[float]:
    try:
        return [float(part.strip().rstrip("%")) for part in text.split(",")] if text else []
    except ValueError:
        raise ConfigurationError(option, text, "budgets separated by commas, as in 10,20") from None
