"""The command line. Thin: options come from the settings of `Experiment`, work is done elsewhere."""

from __future__ import annotations

import inspect
import signal
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedactive import __version__
from fedactive.analysis.curves import learning_curves
from fedactive.analysis.report import write_report
from fedactive.cli.data import app as data_app
from fedactive.cli.data import datasets
from fedactive.cli.demo import demo as run_demo
from fedactive.cli.paper import app as paper_app
from fedactive.cli.sites import coordinator_app, site_app
from fedactive.cli.tables import print_accuracy
from fedactive.errors import ConfigurationError, UserError, user_message
from fedactive.experiment import Experiment, parse_toml
from fedactive.files import expand_home, quote
from fedactive.laboratory.progress import make_progress, resumable
from fedactive.laboratory.run import Result
from fedactive.laboratory.run import run as run_experiment
from fedactive.options import Option, options_of
from fedactive.record.run_folder import is_finished
from fedactive.record.state import LAST_FL_ROUNDS, divergence
from fedactive.registry import ALGORITHMS, MODELS, STRATEGIES, Registry, load_plugin
from fedactive.sweep.comparison import Comparison, hold_lifeline, report_failures
from fedactive.sweep.grid import JOBS_HELP, expand, require_data, shared_among

app = typer.Typer(
    help="Federated active learning: clients that keep their data train one model and choose what to label.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # which joins the lines of a paragraph
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")
app.add_typer(paper_app, name="paper")
app.add_typer(coordinator_app, name="coordinator")
app.add_typer(site_app, name="site")

Plugin = Annotated[
    Path | None, typer.Option("--plugin", help="Python file that registers strategies, algorithms or models")
]


def load(plugin: Path | None) -> None:
    if plugin is not None:
        load_plugin(plugin)


def option(item: Option) -> inspect.Parameter:
    """The flag of one setting. Flags are text here: the setting itself says what is wrong with a value."""
    info = typer.Option(
        item.flag,
        help=f"{item.help} ({item.allowed}; default {'none' if item.default == '' else item.default})",
        metavar=item.kind.__name__.upper(),
        show_default=False,
        rich_help_panel=item.panel,
    )
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, info]
    )


def run(config: Path | None, plugin: Path | None, **flags: str | None) -> None:
    """Run one experiment, or go on with one that was stopped.

    The defaults are the paper's. A configuration file may set any option by its name (fl_rounds = 50); flags
    win over it. The same configuration always means the same run folder, so the same command resumes.
    """
    load(plugin)
    given = {name: text for name, text in flags.items() if text is not None}
    experiment = Experiment.from_toml(read_config(config), **given)
    finished = is_finished(experiment)
    with resumable():
        result = run_experiment(experiment, make_progress())
    if finished:
        print("nothing was left to run: this run was finished before")
    print_result(result)


def compare(config: Path | None, plugin: Path | None, jobs: int | None, **flags: str | None) -> None:
    """Run a grid of experiments: strategies, selectors, seeds and settings, several at a time.

    Any option may have several values, separated by commas (--strategy logo,random --seed 1,2,3,4), or a list
    in the configuration file (seed = [1, 2, 3, 4]); every combination that differs is a run.
    --strategy-options and its like have commas of their own: their values are separated by semicolons
    ('micro=entropy;micro=margin'). What is done is skipped, what was stopped resumes, and a run that fails
    does not stop the others.
    """
    load(plugin)
    given = {
        name: [value.strip() for value in text.split(";" if name.endswith("_options") else ",")]
        for name, text in flags.items()
        if text is not None
    }
    grid = expand(parse_toml(read_config(config)) | given)
    require_data(grid)
    experiments, jobs = shared_among(grid, jobs)
    with resumable():
        finished = Comparison(experiments, jobs, plugin).run()
    done = [job for job in finished if not job.failed]
    if done:
        curves = learning_curves([job.folder for job in done])
        # A run may have gone further, once.
        wanted = curves["run"].map({job.folder.resolve().name: job.experiment.rounds for job in done})
        for setting, table in curves[curves["al_round"] <= wanted].groupby("setting"):
            where = f"{setting!s}: " if setting else ""
            print_accuracy(table, f"{where}test accuracy (%) by % labelled, mean ± deviation over seeds")
        print(f"now: fedactive report {quote(done[0].experiment.runs_dir)} -o report.html")
    report_failures(finished)


def read_config(path: Path | None) -> str:
    if path is not None and not path.is_file():
        raise ConfigurationError("config", str(path), "a TOML file that exists")
    try:
        text = path.read_text(encoding="utf-8-sig") if path else ""  # Windows may begin it with a mark
        tomllib.loads(text)
        return text
    except UnicodeDecodeError:
        raise ConfigurationError("config", str(path), "a TOML file, which is text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            "config", str(path), f"a TOML file of `name = value` lines; {error}"
        ) from None


def with_settings(command: Any, **more: Any) -> Any:
    """Give a command one flag per setting of Experiment, and those in `more`."""
    config = Annotated[Path | None, typer.Option("--config", help="TOML file with settings")]
    flags = {"config": config, "plugin": Plugin} | more
    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in flags.items()
    ]
    parameters = [*own, *map(option, options_of(Experiment))]
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


JOBS = typer.Option("--jobs", help=JOBS_HELP, min=1)
app.command()(with_settings(run))
app.command()(with_settings(compare, jobs=Annotated[int | None, JOBS]))


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="show the version")] = False) -> None:
    if show:
        print(f"fedactive {__version__}")
        raise typer.Exit


@app.command()
def demo(
    runs_dir: Annotated[Path, typer.Option(help="where the demo's folder is made")] = Path("runs"),
) -> None:
    """Watch LoGo, Entropy and Random learn side by side (about a minute, no download)."""
    run_demo(runs_dir)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="run folders, folders of them, or of exported results")],
    output: Annotated[Path, typer.Option("--output", "-o", help="the page to write")] = Path("report.html"),
    data_dir: Annotated[Path | None, typer.Option(help="folder of the datasets, for pictures")] = None,
) -> None:
    """Write one self-contained HTML page about any number of runs, to look at, print or e-mail."""
    reported = write_report(runs, output, data_dir)
    for path, reason in reported.skipped:
        print(f"skipped: {path}: {reason}", file=sys.stderr)
    print(f"{output}: runs {len(reported.configuration)}")


@app.command()
def strategies(plugin: Plugin = None) -> None:
    """List the query strategies: whose model chooses, what they query, and their options."""
    load(plugin)
    print_registry(STRATEGIES, "what it queries", selector=lambda cls: " or ".join(cls.selectors))


@app.command()
def algorithms(plugin: Plugin = None) -> None:
    """List the federated algorithms and their options."""
    load(plugin)
    print_registry(ALGORITHMS, "what it does")


@app.command()
def models(plugin: Plugin = None) -> None:
    """List the architectures and their options."""
    load(plugin)
    print_registry(MODELS, "what it is")


def print_registry(registry: Registry, what: str, **more: Callable[[Any], str]) -> None:
    """A table of all that is registered, with further columns that are functions of each."""
    table = Table(show_lines=True)
    for column in (registry.kind, *more):
        table.add_column(column, no_wrap=True)  # names are for typing, so never cut short
    for column in (what, "options"):
        table.add_column(column, overflow="fold")
    for name, cls in registry.items():
        options = "\n".join(
            f"{o.name}= {o.allowed.removeprefix('one of ')} ({o.help}; default {o.default})"
            for o in options_of(cls)
        )
        columns = [read(cls) for read in more.values()]
        table.add_row(name, *columns, escape(f"{cls.summary} ({cls.paper})"), escape(options))
    Console().print(table)


app.command()(datasets)


def print_result(result: Result) -> None:
    metrics = result.metrics
    labelled = metrics.groupby("al_round")["labelled"].first().to_dict()
    table = Table("AL round", "labelled", "test accuracy")
    for al_round, accuracy in result.accuracy.items():
        table.add_row(str(al_round), str(labelled[al_round]), f"{accuracy:.2%}")
    Console().print(table)
    averaged = min(LAST_FL_ROUNDS, int(metrics["fl_round"].max()))
    print(f"(accuracy: mean of the last {averaged} FL rounds of each AL round)")
    if problem := divergence(metrics):
        print(problem, file=sys.stderr)
    print(f"run folder: {result.folder}")


def expand_home_in(argument: str) -> str:
    """`--from=~/runs` with the home folder for the tilde, which shells replace at the beginning only."""
    option, _, value = argument.partition("=")
    return f"{option}={expand_home(value)}" if option.startswith("--") and value.startswith("~") else argument


def main() -> None:
    hold_lifeline()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended in good order, as by Ctrl-C
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        app(list(map(expand_home_in, sys.argv[1:])))
    except (UserError, OSError) as error:
        sentence = user_message(error)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, UserError) else 1)
