"""`fedactive paper`: the paper's settings, the runs behind each table and figure, and ours beside theirs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedactive.cli.options import DataDir, Jobs, On, completion, example, print_remarks, with_flags
from fedactive.cli.paper_options import (
    CHANGES,
    ROWS,
    RUNS,
    SEEDS,
    THRESHOLD,
    FigureName,
    Source,
    TableName,
    as_options,
    changes_of,
    rows_of,
    seeds_of,
    split_numbers,
    threshold_of,
)
from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.files import quote, write_output
from fedactive.paper import TABLES
from fedactive.paper.settings import CATEGORIES, setting_numbers

if TYPE_CHECKING:
    from fedactive.record.stored import StoredRun

app = typer.Typer(
    help="Reproduce the paper: its settings, tables and figures.",
    epilog=example("fedactive paper show accuracy --from results --datasets cifar10"),
    no_args_is_help=True,
)


@app.command(epilog=example("fedactive paper settings"))
def settings() -> None:
    """List the 38 settings of the paper's comparison."""
    from rich.table import Table

    from fedactive.cli.tables import print_whole
    from fedactive.paper.settings import all_settings

    table = Table("", "selector", "alpha", "dataset", "model", "budget", "initial weights")
    for s in all_settings():
        table.add_row(str(s.number), s.selector, f"{s.alpha:g}", s.dataset, s.model, f"{s.budget:g}%", s.init)
    print_whole(table)


@app.command(epilog=example("fedactive paper run accuracy --datasets cifar10 --until 20 --seeds 1"))
@with_flags((SEEDS, *ROWS, *CHANGES))
def run(
    name: TableName,
    alphas: Annotated[str | None, typer.Option(help="Take only these alphas, as in 0.1,inf.")] = None,
    rhos: Annotated[str | None, typer.Option(help="Take only these rhos, as in 1,20.")] = None,
    settings: Annotated[
        str | None, typer.Option(help="Take only these of the 38 settings, as in 1-9,16; for penalty.")
    ] = None,
    jobs: Jobs = None,
    on: On = "here",
    trial: Annotated[bool, typer.Option(help="Train for some seconds first, to estimate the time.")] = True,
    device: Annotated[
        str, typer.Option(help="Train here: auto, cpu, cuda, or some GPUs as in cuda:0,cuda:2.")
    ] = "auto",
    runs_dir: Annotated[Path, typer.Option(help="Make run folders in this folder.")] = RUNS,
    data_dir: DataDir = Path("data"),
    **flags: Any,
) -> None:
    """Start or resume exactly the runs that a table or figure needs.

    First it says how many they are and how long they take.
    """
    from fedactive.cli.paper_hints import settings_beyond
    from fedactive.laboratory.progress import handle_interrupt
    from fedactive.paper.reproduce import experiments, first_percent
    from fedactive.record.archive import remaining
    from fedactive.sweep.comparison import Comparison, report_failures
    from fedactive.sweep.estimate import estimate
    from fedactive.sweep.grid import require_data
    from fedactive.sweep.here import Here
    from fedactive.sweep.workplace import open_workplace

    until, rows, changes = flags["until"], rows_of(flags), changes_of(flags)
    numbers = None if settings is None else setting_numbers(settings)
    workplace = open_workplace(on, device, jobs)
    wanted = experiments(
        name,
        until=until,
        seeds=seeds_of(flags),
        alphas=split_numbers("alphas", alphas),
        rhos=split_numbers("rhos", rhos),
        settings=numbers,
        **rows,
        **changes,
        device=workplace.device,
        runs_dir=runs_dir,
        data_dir=data_dir,
    )
    missing = remaining(wanted)
    require_data(missing)
    first = first_percent(name, rows["datasets"])
    comparable = until is None or until >= first
    if not comparable:
        print(f"the paper's numbers begin at {first:g}% labelled: there are none to compare these runs with")
    if name == "penalty" and (beyond := settings_beyond(until, numbers, rows["datasets"])):
        print(
            f"left out, because their first budget is beyond --until {until:g}: settings {', '.join(beyond)}"
        )
    if trial and isinstance(workplace, Here):  # how fast a cluster is, this machine cannot try
        print(estimate(wanted, missing, gpus=len(workplace.gpus)), flush=True)
    if missing:
        with handle_interrupt():
            finished = Comparison(missing, workplace).run()
        report_failures(finished)
    if comparable:
        print(f"now: fedactive paper show {name} --from {quote(runs_dir)}{as_options(changes)}")


@app.command(epilog=example("fedactive paper show accuracy --from results --datasets cifar10"))
@with_flags((SEEDS, *ROWS, THRESHOLD, *CHANGES))
def show(
    name: TableName,
    source: Source = RUNS,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it as CSV, too.")] = None,
    **flags: Any,
) -> None:
    """Print a table: the paper's number, ours, the difference, and whether theirs lies in our interval."""
    from fedactive.analysis.significance import winning
    from fedactive.cli.paper_hints import explain_missing, warn_of_unequal
    from fedactive.cli.tables import print_paper_table
    from fedactive.paper.comparison import EXACT, limit_of, settings_with_runs
    from fedactive.paper.precision import shared_precision
    from fedactive.paper.reproduce import show as show_table
    from fedactive.record.archive import Archive

    runs = read_source(source)
    seeds, rows, changes = seeds_of(flags), rows_of(flags), shared_precision(runs) | changes_of(flags)
    table = show_table(
        name, runs, until=flags["until"], seeds=seeds, **threshold_of(flags), **rows, **changes
    )
    matrix = "seeds" not in table  # `penalty`, which has no rows without runs
    if not matrix:
        print_paper_table(table, TABLES[name])
    elif len(table) > 1:
        settings = settings_with_runs(Archive(runs, seeds), **changes)
        print_paper_table(
            table, f"who wins over whom, over {max(settings.values())} of the paper's 38 settings"
        )
        print(f"Rows win, columns lose. {winning(limit_of(flags['threshold'] or EXACT))}")
        warn_of_unequal(settings)
    if (len(table) == 1) if matrix else (table["seeds"].sum() == 0):
        print(explain_missing(name, source, runs, rows, changes), file=sys.stderr)
    if output is not None:
        write_output(output, table.to_csv(index=False).encode())


@app.command(epilog=example("fedactive paper figure curves --from results -o curves.svg"))
@with_flags((SEEDS, THRESHOLD, *CHANGES))
def figure(
    name: FigureName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write this picture, .svg, .png or .pdf.")],
    setting: Annotated[
        int | None, typer.Option(metavar="INT", help="Number of one setting, for `curves`.", min=1, max=38)
    ] = None,
    category: Annotated[
        str,
        typer.Option(
            help="One of " + ", ".join(CATEGORIES) + ", for `penalty`.",
            autocompletion=completion(CATEGORIES),
        ),
    ] = "overall",
    source: Source = RUNS,
    data_dir: DataDir = Path("data"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the picture that is there differs.")
    ] = False,
    **flags: Any,
) -> None:
    """Draw a figure of the paper from our runs; `clients` needs only the data."""
    from fedactive.cli.paper_hints import experiments_drawn, hint_at_options, warn_of_unequal
    from fedactive.paper.comparison import settings_with_runs
    from fedactive.paper.figures import FigureRequest, NoRunsError
    from fedactive.paper.figures import figure as draw_figure
    from fedactive.paper.precision import shared_precision
    from fedactive.record.archive import Archive

    if setting is not None and name != "curves":
        raise ConfigurationError("figure", name, "curves, with --setting")
    if category != "overall" and name != "penalty":
        raise ConfigurationError("figure", name, "penalty, with --category")
    runs = read_source(source)
    changes = shared_precision(runs) | changes_of(flags)
    archive = Archive(runs, seeds_of(flags))
    made = FigureRequest(
        archive, output, data_dir, setting, category, overrides=changes, **threshold_of(flags)
    )
    try:
        with TemporaryDirectory() as elsewhere:
            drawn = Path(elsewhere) / output.name if check else output
            draw_figure(name, replace(made, path=drawn))
            if check and not (output.exists() and drawn.read_bytes() == output.read_bytes()):
                raise UserError(f"{output} does not show what {source} says; draw it anew without --check")
    except NoRunsError as error:
        hint = hint_at_options(experiments_drawn(error.table, setting), runs, changes)
        raise RunError(f"{error}; {hint}: figure needs the same" if hint else str(error)) from None
    if name in ("bars", "penalty"):
        warn_of_unequal(settings_with_runs(archive, **changes))
    print(output)


@app.command(epilog=example("fedactive paper export runs -o results"))
def export(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, folders of run folders, or exported results.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write results into this folder, or .parquet file.")
    ] = Path("results"),
) -> None:
    """Gather runs in one Parquet file that is small enough to commit.

    `show`, `figure` and `document` read it. Runs that are in it already are replaced, unless those in the
    file got further.
    """
    from fedactive.record.export import export as export_runs

    done = export_runs(runs, output)
    print_remarks("changed", done.changed)
    print_remarks("skipped", done.skipped)
    print(f"{output}: runs {done.runs}, added {done.added}, replaced {done.replaced}")


@app.command(epilog=example("fedactive paper document docs/REPRODUCTION.md --from results --check"))
def document(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Markdown files with `<!-- table: NAME -->` or other such comments in them.",
            exists=True,
            dir_okay=False,
        ),
    ],
    source: Source = Path("results"),
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a table differs.")] = False,
) -> None:
    """Write tables, claims with verdicts and pictures into documents, or check that they are true."""
    from fedactive.analysis.document import read_document, write_or_check
    from fedactive.paper.document import fill, pictures

    runs = read_source(source)
    if not runs:  # a mistyped folder must not empty the tables
        raise RunError(f"there are no runs in {source}")
    for path in paths:
        text = read_document(path)
        again = f"fedactive paper document {quote(path)} --from {quote(source)}"
        for name, content in pictures(text, runs).items():
            picture = path.parent / name
            if not check:
                picture.parent.mkdir(parents=True, exist_ok=True)
                write_output(picture, content)
            elif not picture.exists() or picture.read_bytes() != content:
                raise UserError(f"{picture} does not say what {source} says; write it anew with: {again}")
        write_or_check(path, text, fill(text, runs), source, again, check)


def read_source(source: Path) -> list[StoredRun]:
    """Read all runs there, and print which cannot be used.

    A missing folder is an error, except for the default one, which `run` will make.
    """
    from fedactive.record.archive import Archive
    from fedactive.record.finding import runs_in

    if source == RUNS and not source.exists():
        return []
    runs, skipped = runs_in(source)
    print_remarks("skipped", skipped + Archive(runs).skipped)
    return runs
