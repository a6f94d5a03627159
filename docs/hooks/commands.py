"""The reference of all commands and their options, from the definitions that the command line itself has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import typer

from fedactive.cli.app import app
from fedactive.cli.options import CHOICES, FIELD, LABORATORY, PAPER
from tables import code, table

PANELS = {
    LABORATORY: "Run, compare, report, export.",
    CHOICES: "What can be chosen, datasets, and first files of your own.",
    PAPER: "The paper's tables and figures, and the benchmark.",
    FIELD: "Between real sites: the coordinator's side, and a site's.",
}


def command_pages(folder: str) -> dict[str, str]:
    """Write a page for each panel of `fedactive --help`, and one that lists all commands."""
    by_panel: dict[str, list[tuple[str, click.Command]]] = {panel: [] for panel in PANELS}
    top = typer.main.get_command(app)
    for name, command in getattr(top, "commands", {}).items():
        by_panel[command.rich_help_panel] += list(leaves(command, f"fedactive {name}"))
    pages, index = {}, []
    for panel, commands in by_panel.items():
        place = panel.lower().replace(" ", "-") + ".md"
        pages[f"{folder}/{place}"] = "\n".join(
            [f"# {panel}\n", f"{PANELS[panel]}\n", *(section(path, command) for path, command in commands)]
        )
        rows = [(f"[`{path}`]({place}#{anchor(path)})", summary(command)) for path, command in commands]
        index += [f"## {panel}\n", table(("command", "what it does"), rows)]
    return {f"{folder}/index.md": "\n".join(index), **pages}


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """List the commands that do something, with how they are called."""
    parts = getattr(command, "commands", {})
    if not parts:
        yield path, command
    for name, part in parts.items():
        yield from leaves(part, f"{path} {name}")


def anchor(path: str) -> str:
    return path.replace(" ", "-")


def summary(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return re.split(r"(?<=\.)\s", " ".join((command.help or "").split()), maxsplit=1)[0]


def section(path: str, command: click.Command) -> str:
    """Write what a command does, its arguments and options, and an example."""
    context = click.Context(command, info_name=path.rpartition(" ")[2])
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [row(parameter) for parameter in shown if parameter.param_type_name == "argument"]
    options: dict[str, list[tuple[str, ...]]] = {}
    for parameter in shown:
        if parameter.param_type_name == "option":
            heading = getattr(parameter, "rich_help_panel", None) or "Options"
            options.setdefault(heading, []).append(row(parameter))
    example = re.sub(r"^Example: `(.*)`$", r"\1", command.epilog or "")
    return "\n".join(
        [
            f"## {path}\n",
            f"{command.help}\n",
            f"```text\n{usage}\n```\n",
            table(("argument", ""), arguments),
            *(table((heading.lower(), ""), rows) for heading, rows in options.items()),
            f"```bash\n{example}\n```\n" if example else "",
        ]
    )


def row(parameter: click.Parameter) -> tuple[str, ...]:
    """Return how a parameter is written, and what it means."""
    help = getattr(parameter, "help", None) or ""
    if parameter.param_type_name == "argument":
        return code(parameter.make_metavar(click.Context(click.Command("")))), help
    names = " ".join(code(name) for name in (*parameter.opts, *parameter.secondary_opts))
    flag = getattr(parameter, "is_flag", False)
    kind = "" if flag else f" {code(parameter.make_metavar(click.Context(click.Command(''))))}"
    return names + kind, help + default_of(parameter)


def default_of(parameter: click.Parameter) -> str:
    """Return the default in words, where the help does not say it already."""
    value = parameter.default
    said = "default" in (getattr(parameter, "help", None) or "")
    if said or value is None or callable(value) or isinstance(value, bool) or value in ("", (), []):
        return ""
    return f" Default: {code(value)}."
