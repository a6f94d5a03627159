"""`fedactive paper`: the paper's settings, the runs behind each table and figure, and ours beside theirs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from pandas.api.types import is_numeric_dtype
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedactive.analysis.export import export as export_runs
from fedactive.analysis.finding import stored_runs
from fedactive.analysis.stored import DEFAULTS, StoredRun
from fedactive.compare import JOBS_HELP, Comparison, report_failures, require_data, shared_among
from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.paper.archive import Archive
from fedactive.paper.comparison import CATEGORIES, OVERALL
from fedactive.paper.document import filled
from fedactive.paper.estimate import estimate
from fedactive.paper.figures import FIGURES, Request
from fedactive.paper.figures import figure as draw_figure
from fedactive.paper.reproduce import NAMES, experiments, remaining
from fedactive.paper.reproduce import show as show_table
from fedactive.paper.settings import PAPER, all_settings
from fedactive.progress import resumable
from fedactive.runs import write_atomically

app = typer.Typer(help="Reproduce the paper: its settings, tables and figures.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="one of " + ", ".join(NAMES), metavar="NAME")]
Until = Annotated[float | None, typer.Option(help="stop at this percent labelled")]
# How runs may differ from the paper's: `show` and `figure` find them again by the same options.
FlRounds = Annotated[int | None, typer.Option(help="FL rounds per AL round, instead of the paper's 100")]
Partition = Annotated[str | None, typer.Option(help="transport or reference, the released code's clients")]
Schedule = Annotated[str | None, typer.Option(help="paper or reference, the released code's learning rates")]
Precision = Annotated[str | None, typer.Option(help="fp32, tf32 or bf16")]
Datasets = Annotated[str | None, typer.Option(help="only these datasets, separated by commas")]
RunsDir = Annotated[Path, typer.Option(help="folder of the run folders")]
Source = Annotated[Path, typer.Option("--from", help="folder of run folders, or of exported results")]
DataDir = Annotated[Path, typer.Option(help="folder of the datasets")]


@app.command()
def settings() -> None:
    """List the 38 settings of the paper's comparison."""
    table = Table("", "selector", "alpha", "dataset", "model", "budget", "initial weights")
    for s in all_settings():
        table.add_row(str(s.number), s.selector, f"{s.alpha:g}", s.dataset, s.model, f"{s.budget:g}%", s.init)
    Console().print(table)


@app.command()
def run(
    name: Name,
    until: Until = None,
    seeds: Annotated[int | None, typer.Option(help="only the first so many seeds", min=1)] = None,
    datasets: Datasets = None,
    strategies: Annotated[str | None, typer.Option(help="only these, separated by commas")] = None,
    alphas: Annotated[str | None, typer.Option(help="only these alphas, as in 0.1,inf")] = None,
    rhos: Annotated[str | None, typer.Option(help="only these rhos, as in 1,20")] = None,
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    jobs: Annotated[int | None, typer.Option(help=JOBS_HELP, min=1)] = None,
    trial: Annotated[bool, typer.Option(help="train a moment first, to tell how long it takes")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    runs_dir: RunsDir = Path("runs"),
    data_dir: DataDir = Path("data"),
) -> None:
    """Start, or resume, exactly the runs a table or figure needs; says first how many and how long."""
    changes = changed(fl_rounds, partition, schedule, precision)
    wanted = experiments(
        name,
        until=until,
        seeds=range(1, seeds + 1) if seeds else None,
        datasets=datasets.split(",") if datasets else None,
        strategies=strategies.split(",") if strategies else None,
        alphas=numbers("alphas", alphas) if alphas else None,
        rhos=numbers("rhos", rhos) if rhos else None,
        **changes,
        device=device,
        runs_dir=runs_dir,
        data_dir=data_dir,
    )
    missing = remaining(wanted)
    require_data(missing)
    if trial:
        print(estimate(wanted), flush=True)
    if missing:
        with resumable():
            finished = Comparison(*shared_among(missing, jobs)).run()
        report_failures(finished)
    again = "".join(f" --{option.replace('_', '-')} {value}" for option, value in changes.items())
    print(f"now: fedactive paper show {name} --from {runs_dir}{again}")


@app.command()
def show(
    name: Name,
    until: Until = None,
    datasets: Datasets = None,
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    source: Source = Path("runs"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write it as CSV, too")] = None,
) -> None:
    """Print a table: the paper's number, ours, the difference, and whether theirs lies in our interval."""
    chosen = datasets.split(",") if datasets else None
    runs = stored_runs(source)
    changes = changed(fl_rounds, partition, schedule, precision)
    table = show_table(name, runs, until=until, datasets=chosen, **changes)
    matrix = "seeds" not in table  # `penalty`, which has no rows without runs
    if not matrix or len(table) > 1:
        print_table(table, NAMES[name])
    if (len(table) == 1) if matrix else (table["seeds"].sum() == 0):
        print(f"no runs of this table in {source}; `fedactive paper run {name}` makes them", file=sys.stderr)
        if made_with := differences(runs):
            print(f"there are runs made with {', '.join(made_with)}: show needs the same", file=sys.stderr)
    if output is not None:
        write_atomically(output, table.to_csv(index=False).encode())


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="one of " + ", ".join(FIGURES), metavar="NAME")],
    output: Annotated[Path, typer.Option("--output", "-o", help="picture, .svg, .png or .pdf")],
    setting: Annotated[
        int | None, typer.Option(help="number of one setting, for `curves`", min=1, max=38)
    ] = None,
    category: Annotated[str, typer.Option(help="for `penalty`, one of " + ", ".join(CATEGORIES))] = OVERALL,
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    source: Source = Path("runs"),
    data_dir: DataDir = Path("data"),
) -> None:
    """Draw a figure of the paper from our runs; `clients` needs only the data."""
    changes = changed(fl_rounds, partition, schedule, precision)
    draw_figure(name, Request(Archive(stored_runs(source)), output, data_dir, setting, category, changes))
    print(output)


@app.command()
def export(
    runs: Annotated[list[Path], typer.Argument(help="run folders, folders of them, or of exported results")],
    output: Annotated[Path, typer.Option("--output", "-o", help="folder of the results")] = Path("results"),
) -> None:
    """Gather runs in one Parquet file that is small enough to commit; `show` and `figure` read it.

    Runs that are in it already are replaced, unless those in the file got further.
    """
    done = export_runs(runs, output)
    for path, why in done.skipped:
        print(f"skipped: {path}: {why}", file=sys.stderr)
    print(f"{output}: runs {done.runs}, added {done.added}, replaced {done.replaced}")


@app.command()
def document(
    path: Annotated[
        Path,
        typer.Argument(help="Markdown file with `<!-- table: NAME -->` in it", exists=True, dir_okay=False),
    ],
    source: Source = Path("results"),
    check: Annotated[
        bool, typer.Option("--check", help="change nothing, fail if a table is not true")
    ] = False,
) -> None:
    """Write tables, and the paper's claims with verdicts, into a document, or check that they are true."""
    runs = stored_runs(source)
    if not runs:  # a mistyped folder must not empty the tables
        raise RunError(f"there are no runs in {source}")
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text") from None
    new = filled(text, runs)
    if check and new != text:
        again = f"fedactive paper document {path} --from {source}"
        raise UserError(f"{path} does not say what {source} says; write it anew with: {again}")
    if not check:
        write_atomically(path, new.encode())
    print(f"{path}: {'true' if check else 'written'}")


def differences(runs: Sequence[StoredRun]) -> list[str]:
    """The options by which these runs were made other than the paper's."""
    paper = DEFAULTS | PAPER
    return sorted(
        {
            f"--{field.replace('_', '-')} {dict(run.identity)[field]}"
            for run in runs
            for field in ("fl_rounds", "partition", "schedule", "precision")
            if dict(run.identity)[field] != paper[field]
        }
    )


def numbers(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(option, text, "numbers separated by commas, or inf") from None


def changed(
    fl_rounds: int | None, partition: str | None, schedule: str | None, precision: str | None
) -> dict[str, Any]:
    """In what runs differ from the paper's, as settings of Experiment."""
    given = {"fl_rounds": fl_rounds, "partition": partition, "schedule": schedule, "precision": precision}
    return {name: value for name, value in given.items() if value is not None}


def print_table(frame: pd.DataFrame, title: str) -> None:
    """The table in the terminal: narrower than the CSV, with mean and spread in one column."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown = compact(frame) if "ours" in frame.columns else frame
    for column in shown.columns:
        table.add_column(str(column), justify="right" if is_numeric_dtype(shown[column]) else "left")
    for row in shown.itertuples(index=False):
        table.add_row(*("" if pd.isna(v) else f"{v:.2f}" if isinstance(v, float) else str(v) for v in row))
    Console().print(table)


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    digits = 3 if "measure" in frame.columns else 2  # EMD is printed with three

    def number(value: float) -> str:
        return "" if pd.isna(value) else f"{value:.{digits}f}"

    spread = [f" ±{number(s)}" if pd.notna(s) else "" for s in frame["std"]]
    ours = [number(mean) + s for mean, s in zip(frame["ours"], spread, strict=True)]
    shown = frame.drop(columns=["std", "low", "high", "note", "difference", "inside"])
    shown = shown.assign(paper=frame["paper"].map(number), ours=ours)
    shown["diff"] = frame["difference"].map(number)
    shown["paper inside"] = frame["inside"].map({True: "yes", False: "no"})
    return shown.rename(columns={"labelled_percent": "%"})
