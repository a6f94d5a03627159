"""`fedactive strategies`, `algorithms`, `objectives`, `models` ...: what can be chosen by name."""

from __future__ import annotations

import typer

from fedactive.cli.options import CHOICES, Plugins, example, load_plugins
from fedactive.options import options_of
from fedactive.registry import ALGORITHMS, AUGMENTATIONS, BACKBONES, MODELS, OBJECTIVES, STRATEGIES, Registry

app = typer.Typer()


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive strategies"))
def strategies(plugin: Plugins = None) -> None:
    """List the query strategies: whose model chooses, what they query, and their options."""
    load_plugins(plugin)
    print_registry(STRATEGIES, "what it queries", selectors=True)


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive algorithms"))
def algorithms(plugin: Plugins = None) -> None:
    """List the federated algorithms and their options."""
    load_plugins(plugin)
    print_registry(ALGORITHMS, "what it does")


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive objectives"))
def objectives(plugin: Plugins = None) -> None:
    """List the objectives, which clients train with, and their options."""
    load_plugins(plugin)
    print_registry(OBJECTIVES, "what it is")


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive models"))
def models(plugin: Plugins = None) -> None:
    """List the models and their options."""
    load_plugins(plugin)
    print_registry(MODELS, "what it is")


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive backbones"))
def backbones(plugin: Plugins = None) -> None:
    """List the backbones, which turn images into features, and their options."""
    load_plugins(plugin)
    print_registry(BACKBONES, "what it is")


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive augmentations"))
def augmentations(plugin: Plugins = None) -> None:
    """List the augmentations of training images; --augment flip+crop joins several."""
    load_plugins(plugin)
    print_registry(AUGMENTATIONS, "what it does")


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive methods"))
def methods(plugin: Plugins = None) -> None:
    """List the methods, as published, and the settings that each stands for."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedactive.methods import method_class, method_names, settings_of

    load_plugins(plugin)
    table = Table("method", "what it is", "settings", show_lines=True)
    for name in method_names():
        cls, flags = method_class(name), settings_of(name).items()
        settings = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in flags)
        table.add_row(name, escape(f"{cls.summary} ({cls.paper})"), escape(settings))
    Console().print(table)


def print_registry(registry: Registry, what: str, selectors: bool = False) -> None:
    """Print a table of all that is registered; `what` is the title of the column of summaries."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_lines=True)
    for column in (registry.kind, "selector") if selectors else (registry.kind,):
        table.add_column(column, no_wrap=True)  # names are for typing, so never cut short
    for column in (what, "options"):
        table.add_column(column, overflow="fold")
    for name, cls in registry.items():
        options = "\n".join(
            f"{o.name}= {o.allowed.removeprefix('one of ')} ({o.help}; default {o.default})"
            for o in options_of(cls)
        )
        names = (name, " or ".join(cls.selectors)) if selectors else (name,)
        table.add_row(*names, escape(f"{cls.summary} ({cls.paper})"), escape(options))
    Console().print(table)
