"""The command line: all commands together, and how their errors reach the user.

Each group of commands has a file of its own; none of them imports PyTorch or pandas before it is called.
"""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Annotated

import click
import typer

from fedactive import __version__
from fedactive.cli import benchmark, coordinator, data, export, new, paper, publish, registries, run, site
from fedactive.cli.options import FIELD, PAPER, example
from fedactive.errors import ERROR, UserError, plain, user_message
from fedactive.files import expand_home
from fedactive.sweep.lifeline import hold_lifeline

app = typer.Typer(
    help="Federated active learning: clients that keep their data train one model and choose what to label.",
    epilog=example("fedactive demo"),
    no_args_is_help=True,
    rich_markup_mode="markdown",  # which joins the lines of a paragraph
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (run.app, publish.app, export.app, registries.app, new.app, data.app):
    app.add_typer(commands)
app.add_typer(benchmark.app, name="benchmark", rich_help_panel=PAPER)
app.add_typer(paper.app, name="paper", rich_help_panel=PAPER)
app.add_typer(coordinator.app, name="coordinator", rich_help_panel=FIELD)
app.add_typer(site.app, name="site", rich_help_panel=FIELD)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"fedactive {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=print_version, is_eager=True),
    ] = False,
) -> None: ...


def expand_home_in(argument: str) -> str:
    """`--from=~/runs` with the home folder for the tilde, which shells replace at the beginning only."""
    option, _, value = argument.partition("=")
    return f"{option}={expand_home(value)}" if option.startswith("--") and value.startswith("~") else argument


def usage_message(error: click.ClickException) -> str:
    """The sentence about a command that cannot be understood, and which help to read."""
    path = getattr(error, "ctx", None) and error.ctx.command_path  # type: ignore[attr-defined]
    return f"{ERROR}{error.format_message().rstrip('.')} (see `{path or 'fedactive'} -h`)"


def main() -> None:
    """Run a command. Exit with 2 for what was asked wrongly, with 1 for what went wrong."""
    hold_lifeline()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended in good order, as by Ctrl-C
    for stream in (sys.stdout, sys.stderr):  # names of files need not be text
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    warnings.showwarning = lambda message, *_, **__: print(plain(f"warning: {message}"), file=sys.stderr)
    try:
        sys.exit(app(list(map(expand_home_in, sys.argv[1:])), prog_name="fedactive", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:  # the help has been printed
        sys.exit(error.exit_code)
    except click.ClickException as error:
        print(plain(usage_message(error)), file=sys.stderr)
        sys.exit(error.exit_code)
    except (UserError, OSError) as error:
        sentence = user_message(error)
        if sentence is None:
            raise
        print(plain(sentence), file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, UserError) else 1)
