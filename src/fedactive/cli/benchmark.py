"""`fedactive benchmark`: suites of settings on which methods are run, and judged by the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedactive.benchmark.suite import Suite, find_suite, shipped_suites
from fedactive.cli.options import (
    DataDir,
    Jobs,
    On,
    Plugins,
    example,
    flag,
    load_plugins,
    name_argument,
    print_remarks,
    with_flags,
)
from fedactive.errors import RunError
from fedactive.files import quote, write_output

if TYPE_CHECKING:
    from fedactive.record.archive import Archive

app = typer.Typer(
    help="Run methods on shared suites of settings, and judge them by the same rules.",
    epilog=example("fedactive benchmark run smoke"),
    no_args_is_help=True,
)

RUNS = Path("runs")  # where `run` makes its runs, and `show` looks for them
SuiteName = Annotated[
    str, name_argument(f"One of {', '.join(shipped_suites())}, or a .toml file of yours.", shipped_suites())
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="Add this method, one of your own or a published one (repeatable)."),
]
Sources = Annotated[
    list[Path] | None,
    typer.Option(
        "--from", help="Read runs from here: a folder of run folders, or exported results (repeatable)."
    ),
]
# Which rows, and in which arithmetic.
ROWS = (
    flag("methods", str, "Take only these methods, as in 'logo,entropy selector=local'."),
    flag("seeds", int, "Number of seeds; the suites have 4.", min=1, metavar="INT"),
)
PRECISION = flag("precision", str, "fp32, tf32 or bf16, in place of the suite's.")


def chosen_suite(name: str, besides: Sequence[str] | None, flags: dict[str, Any]) -> Suite:
    methods = [word.strip() for word in flags["methods"].split(",")] if flags["methods"] else None
    return find_suite(name).of(methods, besides or (), flags["seeds"])


@app.command("list", epilog=example("fedactive benchmark list"))
def list_suites() -> None:
    """List the suites that come with fedactive."""
    from rich.console import Console
    from rich.table import Table

    table = Table("suite", "what it asks", "settings", "methods", "seeds", show_lines=True)
    for name in shipped_suites():
        suite = find_suite(name)
        counts = (len(suite.places()), len(suite.methods), len(suite.seeds))
        table.add_row(name, suite.question, *map(str, counts))
    Console().print(table)


@app.command(epilog=example("fedactive benchmark run smoke --methods random,logo --seeds 2"))
@with_flags((*ROWS, PRECISION))
def run(
    suite: SuiteName,
    method: Methods = None,
    plugin: Plugins = None,
    jobs: Jobs = None,
    on: On = "here",
    trial: Annotated[bool, typer.Option(help="Train for some seconds first, to estimate the time.")] = True,
    device: Annotated[
        str, typer.Option(help="Train here: auto, cpu, cuda, or some GPUs as in cuda:0,cuda:2.")
    ] = "auto",
    runs_dir: Annotated[Path, typer.Option(help="Make run folders in this folder.")] = RUNS,
    data_dir: DataDir = Path("data"),
    source: Sources = None,
    **flags: Any,
) -> None:
    """Start or resume the runs of a suite.

    First it says how many they are and how long they take. Runs that are in a folder given by --from are not
    made again: with the published results only those of your own method are left.
    """
    load_plugins(plugin)
    chosen = chosen_suite(suite, method, flags)

    from fedactive.laboratory.progress import handle_interrupt
    from fedactive.record.archive import remaining
    from fedactive.sweep.comparison import Comparison, report_failures
    from fedactive.sweep.estimate import estimate
    from fedactive.sweep.grid import require_data
    from fedactive.sweep.here import Here
    from fedactive.sweep.workplace import open_workplace

    workplace = open_workplace(on, device, jobs, plugin or ())
    changes = precision_of(flags)
    wanted = chosen.experiments(**changes, device=workplace.device, runs_dir=runs_dir, data_dir=data_dir)
    missing = remaining(wanted, read_archive(source)) if source else remaining(wanted)
    require_data(missing)
    if trial and isinstance(workplace, Here):  # how fast a cluster is, this machine cannot try
        print(estimate(wanted, missing, gpus=len(workplace.gpus)), flush=True)
    if missing:
        with handle_interrupt():
            finished = Comparison(missing, workplace).run()
        report_failures(finished)
    places = [*(source or ()), runs_dir]
    words = [
        *(f"--plugin {quote(path)}" for path in plugin or ()),
        *(f"--method {quote(m)}" for m in method or ()),
    ]
    words += [f"--{name} {quote(value)}" for name, value in flags.items() if value is not None]
    words += [f"--from {quote(path)}" for path in places if places != [RUNS]]
    print(" ".join([f"now: fedactive benchmark show {quote(suite)}", *words]))


@app.command(epilog=example("fedactive benchmark show paper --from results -o cd.svg"))
@with_flags((*ROWS, PRECISION))
def show(
    suite: SuiteName,
    method: Methods = None,
    plugin: Plugins = None,
    source: Sources = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Draw mean ranks and the critical difference: .svg, .png or .pdf."
        ),
    ] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the tables as LaTeX, too.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every number as CSV, too.")] = None,
    pdf: Annotated[
        Path | None, typer.Option(help="Draw the ranks and the learning curves of all settings, too.")
    ] = None,
    **flags: Any,
) -> None:
    """Print the verdict of a suite: ranks, accuracy by budget, decided pairs, labels saved, cost.

    Methods that are added by --method get a sentence of their own: better than these, worse than those.
    """
    load_plugins(plugin)
    chosen = chosen_suite(suite, method, flags)

    from fedactive.analysis.cd_diagram import draw_critical_difference
    from fedactive.benchmark.pictures import as_pdf
    from fedactive.benchmark.points import read_points
    from fedactive.benchmark.sections import as_latex, sections_of
    from fedactive.benchmark.suite import Entry
    from fedactive.benchmark.verdict import Verdict
    from fedactive.cli.tables import print_section

    sources = source or [RUNS]
    verdict = Verdict(chosen, read_points(chosen, read_archive(sources), **precision_of(flags)))
    if verdict.points.empty:
        where = " and ".join(map(str, sources))
        raise RunError(f"no runs of suite {suite} in {where}; `fedactive benchmark run {suite}` makes them")
    sections = sections_of(verdict)
    for section in sections:
        print_section(*section)
    for text in method or ():
        print(verdict.sentence(Entry.read(text).label))
    if output is not None:
        draw_critical_difference(verdict.ranks, f"suite {chosen.name}", output)
        print(output)
    if pdf is not None:
        write_output(pdf, as_pdf(verdict))
    if latex is not None:
        write_output(latex, as_latex(sections).encode())
    if csv is not None:
        write_output(csv, verdict.points.to_csv(index=False).encode())


@app.command(epilog=example("fedactive benchmark document docs/BENCHMARK.md --from results --check"))
def document(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Markdown files with `<!-- suite: NAME -->` in them.", exists=True, dir_okay=False
        ),
    ],
    source: Sources = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a table differs.")] = False,
) -> None:
    """Write verdicts, and the tables of methods' cards, into documents, or check that they are true."""
    from fedactive.analysis.document import read_document, write_or_check
    from fedactive.benchmark.document import Filler

    sources = source or [Path("results")]
    where = " and ".join(map(str, sources))
    filler = Filler(read_archive(sources))
    for path in paths:
        text = read_document(path)
        again = f"fedactive benchmark document {quote(path)}" + "".join(
            f" --from {quote(s)}" for s in sources
        )
        write_or_check(path, text, filler.fill(text), Path(where), again, check)


def precision_of(flags: dict[str, Any]) -> dict[str, str]:
    return {"precision": flags["precision"]} if flags["precision"] is not None else {}


def read_archive(sources: Sequence[Path]) -> Archive:
    """Read all runs there, and print which cannot be used; a missing folder is an error, but for `runs`."""
    from fedactive.record.archive import Archive
    from fedactive.record.finding import runs_in

    found, skipped = [], []
    for source in sources:
        if source == RUNS and not source.exists():
            continue
        there = runs_in(source)
        found += there.runs
        skipped += there.skipped
    archive = Archive(found)
    print_remarks("skipped", skipped + archive.skipped)
    return archive
