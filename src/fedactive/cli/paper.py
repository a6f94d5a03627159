"""`fedactive paper`: the paper's settings, the runs behind each table and figure, and ours beside theirs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedactive.cli.paper_hints import experiments_drawn, of_other_options, warn_of_unequal, what_is_missing
from fedactive.cli.paper_options import (
    RUNS,
    AlfaMixHead,
    DataDir,
    Datasets,
    FlRounds,
    Name,
    Partition,
    Precision,
    RunsDir,
    Schedule,
    Seeds,
    Source,
    Strategies,
    Until,
    as_options,
    changed,
    names,
    numbers,
)
from fedactive.cli.paper_tables import print_table
from fedactive.cli.tables import print_whole
from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.files import quote, write_output
from fedactive.laboratory.progress import resumable
from fedactive.paper.archive import Archive, shared_precision
from fedactive.paper.comparison import CATEGORIES, OVERALL, settings_with_runs
from fedactive.paper.document import filled
from fedactive.paper.estimate import estimate
from fedactive.paper.figures import FIGURES, FigureRequest, NoRunsError
from fedactive.paper.figures import figure as draw_figure
from fedactive.paper.reproduce import NAMES, begins, experiments, remaining
from fedactive.paper.reproduce import show as show_table
from fedactive.paper.settings import all_settings
from fedactive.record.export import export as export_runs
from fedactive.record.finding import runs_in
from fedactive.record.stored import StoredRun
from fedactive.record.tables import Skipped
from fedactive.sweep.comparison import Comparison, report_failures
from fedactive.sweep.grid import JOBS_HELP, require_data, shared_among

app = typer.Typer(help="Reproduce the paper: its settings, tables and figures.", no_args_is_help=True)


@app.command()
def settings() -> None:
    """List the 38 settings of the paper's comparison."""
    table = Table("", "selector", "alpha", "dataset", "model", "budget", "initial weights")
    for s in all_settings():
        table.add_row(str(s.number), s.selector, f"{s.alpha:g}", s.dataset, s.model, f"{s.budget:g}%", s.init)
    print_whole(table)


@app.command()
def run(
    name: Name,
    until: Until = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    strategies: Strategies = None,
    alphas: Annotated[str | None, typer.Option(help="only these alphas, as in 0.1,inf")] = None,
    rhos: Annotated[str | None, typer.Option(help="only these rhos, as in 1,20")] = None,
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    alfamix_head: AlfaMixHead = None,
    jobs: Annotated[int | None, typer.Option(help=JOBS_HELP, min=1)] = None,
    trial: Annotated[bool, typer.Option(help="train a moment first, to tell how long it takes")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    runs_dir: RunsDir = RUNS,
    data_dir: DataDir = Path("data"),
) -> None:
    """Start, or resume, exactly the runs a table or figure needs; says first how many and how long."""
    changes = changed(fl_rounds, partition, schedule, precision, alfamix_head)
    chosen = names(datasets)
    wanted = experiments(
        name,
        until=until,
        seeds=range(1, seeds + 1) if seeds else None,
        datasets=chosen,
        strategies=names(strategies),
        alphas=numbers("alphas", alphas) if alphas else None,
        rhos=numbers("rhos", rhos) if rhos else None,
        **changes,
        device=device,
        runs_dir=runs_dir,
        data_dir=data_dir,
    )
    missing = remaining(wanted)
    require_data(missing)
    first = begins(name, chosen)
    comparable = until is None or until >= first
    if not comparable:
        print(f"the paper's numbers begin at {first:g}% labelled: these runs have none to stand beside")
    if trial:
        print(estimate(wanted), flush=True)
    if missing:
        with resumable():
            finished = Comparison(*shared_among(missing, jobs)).run()
        report_failures(finished)
    if comparable:
        print(f"now: fedactive paper show {name} --from {quote(runs_dir)}{as_options(changes)}")


@app.command()
def show(
    name: Name,
    until: Until = None,
    seeds: Seeds = None,
    datasets: Datasets = None,
    strategies: Strategies = None,
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    alfamix_head: AlfaMixHead = None,
    source: Source = RUNS,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write it as CSV, too")] = None,
) -> None:
    """Print a table: the paper's number, ours, the difference, and whether theirs lies in our interval."""
    runs = read_source(source)
    changes = shared_precision(runs) | changed(fl_rounds, partition, schedule, precision, alfamix_head)
    rows: dict[str, Any] = {"datasets": names(datasets), "strategies": names(strategies)}
    table = show_table(name, runs, until=until, seeds=seeds, **rows, **changes)
    matrix = "seeds" not in table  # `penalty`, which has no rows without runs
    if not matrix:
        print_table(table, NAMES[name])
    elif len(table) > 1:
        settings = settings_with_runs(Archive(runs, seeds), **changes)
        print_table(table, f"who beats whom, over {max(settings.values())} of the paper's 38 settings")
        warn_of_unequal(settings)
    if (len(table) == 1) if matrix else (table["seeds"].sum() == 0):
        print(what_is_missing(name, source, runs, rows, changes), file=sys.stderr)
    if output is not None:
        write_output(output, table.to_csv(index=False).encode())


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="one of " + ", ".join(FIGURES), metavar="NAME")],
    output: Annotated[Path, typer.Option("--output", "-o", help="picture, .svg, .png or .pdf")],
    setting: Annotated[
        int | None, typer.Option(help="number of one setting, for `curves`", min=1, max=38)
    ] = None,
    category: Annotated[str, typer.Option(help="for `penalty`, one of " + ", ".join(CATEGORIES))] = OVERALL,
    seeds: Seeds = None,
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    alfamix_head: AlfaMixHead = None,
    source: Source = RUNS,
    data_dir: DataDir = Path("data"),
) -> None:
    """Draw a figure of the paper from our runs; `clients` needs only the data."""
    if setting is not None and name != "curves":
        raise ConfigurationError("figure", name, "curves, with --setting")
    if category != OVERALL and name != "penalty":
        raise ConfigurationError("figure", name, "penalty, with --category")
    runs = read_source(source)
    changes = shared_precision(runs) | changed(fl_rounds, partition, schedule, precision, alfamix_head)
    archive = Archive(runs, seeds)
    try:
        draw_figure(name, FigureRequest(archive, output, data_dir, setting, category, changes))
    except NoRunsError as error:
        hint = of_other_options(experiments_drawn(error.table, setting), runs, changes)
        raise RunError(f"{error}; {hint}: figure needs the same" if hint else str(error)) from None
    if name in ("bars", "penalty"):
        warn_of_unequal(settings_with_runs(archive, **changes))
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
    print_remarks("changed", done.changed)
    print_remarks("skipped", done.skipped)
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
    runs = read_source(source)
    if not runs:  # a mistyped folder must not empty the tables
        raise RunError(f"there are no runs in {source}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text") from None
    new = filled(text, runs)
    if check and new != text:
        again = f"fedactive paper document {quote(path)} --from {quote(source)}"
        raise UserError(f"{path} does not say what {source} says; write it anew with: {again}")
    if not check:
        write_output(path, new.encode())
    print(f"{path}: {'true' if check else 'written'}")


def read_source(source: Path) -> list[StoredRun]:
    """Read all runs there, and say which cannot be used.

    A folder that is missing was mistyped, but for the one that `run` will make.
    """
    if source == RUNS and not source.exists():
        return []
    runs, skipped = runs_in(source)
    print_remarks("skipped", skipped + Archive(runs).skipped)
    return runs


def print_remarks(kind: str, remarks: Skipped) -> None:
    for path, what in remarks:
        print(f"{kind}: {path}: {what}", file=sys.stderr)
