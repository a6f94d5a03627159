"""`fedactive paper`: the paper's settings, the runs behind each table and figure, and ours beside theirs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedactive.analysis.export import export as export_runs
from fedactive.analysis.finding import stored_runs
from fedactive.analysis.stored import DEFAULTS, Identity, StoredRun
from fedactive.compare import Comparison, report_failures
from fedactive.errors import ConfigurationError, RunError, UserError
from fedactive.files import write_output
from fedactive.grid import JOBS_HELP, require_data, shared_among
from fedactive.paper.archive import Archive, key
from fedactive.paper.comparison import CATEGORIES, OVERALL, settings_with_runs
from fedactive.paper.document import filled
from fedactive.paper.estimate import estimate
from fedactive.paper.figures import FIGURES, NoRunsError, Request
from fedactive.paper.figures import figure as draw_figure
from fedactive.paper.reproduce import NAMES, begins, experiments, remaining
from fedactive.paper.reproduce import show as show_table
from fedactive.paper.settings import PAPER, all_settings
from fedactive.paper.terminal import print_table
from fedactive.progress import resumable
from fedactive.terminal import print_whole

app = typer.Typer(help="Reproduce the paper: its settings, tables and figures.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="one of " + ", ".join(NAMES), metavar="NAME")]
Until = Annotated[float | None, typer.Option(help="stop at this percent labelled")]
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
RUNS = Path("runs")


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
        print(f"now: fedactive paper show {name} --from {runs_dir}{as_options(changes)}")


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
    runs = runs_in(source)
    changes = changed(fl_rounds, partition, schedule, precision, alfamix_head)
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
        print(f"no runs of this table in {source}; `fedactive paper run {name}` makes them", file=sys.stderr)
        if hint := of_other_options(name, runs, changes):
            print(f"{hint}: show needs the same", file=sys.stderr)
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
    fl_rounds: FlRounds = None,
    partition: Partition = None,
    schedule: Schedule = None,
    precision: Precision = None,
    alfamix_head: AlfaMixHead = None,
    source: Source = RUNS,
    data_dir: DataDir = Path("data"),
) -> None:
    """Draw a figure of the paper from our runs; `clients` needs only the data."""
    changes = changed(fl_rounds, partition, schedule, precision, alfamix_head)
    if setting is not None and name != "curves":
        raise ConfigurationError("figure", name, "curves, with --setting")
    if category != OVERALL and name != "penalty":
        raise ConfigurationError("figure", name, "penalty, with --category")
    runs = runs_in(source)
    archive = Archive(runs)
    try:
        draw_figure(name, Request(archive, output, data_dir, setting, category, changes))
    except NoRunsError as error:
        hint = of_other_options(error.table, runs, changes)
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
        write_output(path, new.encode())
    print(f"{path}: {'true' if check else 'written'}")


def runs_in(source: Path) -> list[StoredRun]:
    """All runs there. A folder that is missing was mistyped, but for the one that `run` will make."""
    return [] if source == RUNS and not source.exists() else stored_runs(source)


def warn_of_unequal(settings: dict[str, int]) -> None:
    """Say so where strategies were compared in different numbers of settings."""
    if len(set(settings.values())) > 1:
        counts = ", ".join(f"{strategy} {count}" for strategy, count in settings.items())
        print(f"settings with runs: {counts}; compare only strategies that have the same", file=sys.stderr)


def of_other_options(table: str, runs: Sequence[StoredRun], changes: dict[str, Any]) -> str:
    """How runs of this table were made that are there but were not asked for, if so."""
    paper = DEFAULTS | PAPER

    def unchangeable(settings: Mapping[str, Any]) -> Identity:
        return tuple(pair for pair in key(settings) if pair[0] not in CHANGEABLE)

    def options(settings: dict[str, Any]) -> str:
        other = {name: settings[name] for name in CHANGEABLE if settings[name] != paper[name]}
        return as_options(other).strip()

    needed = {unchangeable(vars(experiment)) for experiment in experiments(table)}
    usable = [settings for run in runs if unchangeable(settings := dict(run.identity)) in needed]
    made_with = {options(settings) for settings in usable} - {options(paper | changes), ""}
    return f"there are runs made with {' or '.join(sorted(made_with))}" if made_with else ""


def as_options(changes: dict[str, Any]) -> str:
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in changes.items())


def names(text: str | None) -> list[str] | None:
    return text.split(",") if text else None


def numbers(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(option, text, "numbers separated by commas, or inf") from None


def changed(*given: int | str | None) -> dict[str, Any]:
    """In what runs differ from the paper's: settings of Experiment, and ALFA-Mix's head."""
    named = zip((*CHANGEABLE, "alfamix_head"), given, strict=True)
    return {name: value for name, value in named if value is not None}
