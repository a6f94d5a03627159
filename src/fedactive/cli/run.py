"""`fedactive run`, `compare`, `demo` and `report`: the laboratory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedactive.cli.options import (
    LABORATORY,
    METHOD,
    SETTINGS,
    Config,
    Fresh,
    Jobs,
    On,
    Plugins,
    example,
    load_plugins,
    print_remarks,
    read_config,
    with_flags,
)
from fedactive.experiment import Experiment, parse_toml
from fedactive.files import quote
from fedactive.methods import merge
from fedactive.quick_imports import quick_imports

app = typer.Typer()


@app.command(
    rich_help_panel=LABORATORY,
    epilog=example("fedactive run --dataset digits --augment none --rounds 3"),
)
@with_flags([METHOD, *SETTINGS])
def run(config: Config = None, plugin: Plugins = None, fresh: Fresh = False, **flags: str | None) -> None:
    """Run one experiment, or resume one that was stopped.

    The defaults are the paper's. A configuration file may set any option by its name (fl_rounds = 50); flags
    win over it. The same configuration always means the same run folder, so the same command resumes.
    """
    load_plugins(plugin)
    given = {name: text for name, text in flags.items() if text is not None}
    experiment = Experiment.from_toml(read_config(config), **given)

    # Below, so that a mistake is answered without them.
    with quick_imports():
        from fedactive.cli.tables import print_result
        from fedactive.laboratory.progress import handle_interrupt, make_progress
        from fedactive.laboratory.run import run as run_experiment
        from fedactive.record.run_folder import is_finished

    finished = is_finished(experiment) and not fresh
    with handle_interrupt():
        result = run_experiment(experiment, make_progress(), fresh=fresh)
    if finished:
        print("nothing was left to run: this run was finished before")
    print_result(result)


@app.command(
    rich_help_panel=LABORATORY,
    epilog=example("fedactive compare --dataset digits --strategy logo,random --rounds 2"),
)
@with_flags([METHOD, *SETTINGS])
def compare(
    config: Config = None,
    plugin: Plugins = None,
    jobs: Jobs = None,
    on: On = "here",
    fresh: Fresh = False,
    **flags: str | None,
) -> None:
    """Run a grid of experiments, several at a time, and compare them.

    Any option may have several values, separated by commas (--strategy logo,random --seed 1,2,3,4), or a list
    in the configuration file (seed = [1, 2, 3, 4]). Every combination is a run. Values of --strategy-options,
    --algorithm-options, --objective-options and --model-options are separated by semicolons
    ('micro=entropy;micro=margin'). Finished runs are skipped, stopped ones resume, and a run that fails does
    not stop the others. Several such commands with one --runs-dir split the work. --device cuda uses all
    GPUs, cuda:0,cuda:2 some of them.
    """
    with quick_imports():
        from fedactive.analysis.curves import axis_of, learning_curves
        from fedactive.cli.tables import print_accuracy
        from fedactive.laboratory.progress import handle_interrupt
        from fedactive.sweep.comparison import Comparison, report_failures
        from fedactive.sweep.grid import expand, require_data
        from fedactive.sweep.workplace import open_workplace

    load_plugins(plugin)
    given = {
        name: [value.strip() for value in text.split(";" if name.endswith("_options") else ",")]
        for name, text in flags.items()
        if text is not None
    }
    values = merge(parse_toml(read_config(config)), given)
    workplace = open_workplace(on, values.get("device", "auto"), jobs, plugin or ())
    grid = expand(values | {"device": workplace.device})
    require_data(grid, fresh)
    with handle_interrupt():
        finished = Comparison(grid, workplace).run()
    done = [job.experiment for job in finished if not job.failed]
    if done:
        curves = learning_curves([e.folder for e in done])
        # A run may have gone further before.
        wanted = curves["run"].map({e.folder.resolve().name: e.rounds for e in done})
        for setting, table in curves[curves["al_round"] <= wanted].groupby("setting"):
            where = f"{setting!s}: " if setting else ""
            by = axis_of(table).title
            print_accuracy(table, f"{where}test accuracy (%) by {by}, mean ± deviation over seeds")
        print(f"now: fedactive report {quote(done[0].runs_dir)} -o report.html")
    report_failures(finished)


@app.command(rich_help_panel=LABORATORY, epilog=example("fedactive demo"))
def demo(
    runs_dir: Annotated[Path, typer.Option(help="Make the demo's folder in this one.")] = Path("runs"),
    open_report: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
) -> None:
    """Watch LoGo, Entropy and Random learn side by side (about a minute, no download)."""
    from fedactive.cli.demo import demo as run_demo

    run_demo(runs_dir, open_report)


@app.command(rich_help_panel=LABORATORY, epilog=example("fedactive report runs -o report.html"))
def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, folders of run folders, or exported results.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write this page.")] = Path("report.html"),
    data_dir: Annotated[Path | None, typer.Option(help="Take pictures from datasets in this folder.")] = None,
) -> None:
    """Write one self-contained HTML page about any number of runs, to look at, print or e-mail."""
    from fedactive.analysis.report import write_report

    reported = write_report(runs, output, data_dir)
    print_remarks("skipped", reported.skipped)
    print(f"{output}: runs {len(reported.configuration)}")
