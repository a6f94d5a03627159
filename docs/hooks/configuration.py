"""The reference of the configuration: every field of `Experiment`, from its own definition."""

from __future__ import annotations

from fedactive.experiment import Experiment
from fedactive.options import Option, options_of
from fedactive.registry import Registry
from tables import code, table


def configuration_page() -> str:
    """Write a table for each panel of settings."""
    panels: dict[str, list[tuple[str, ...]]] = {}
    for item in options_of(Experiment):
        panels.setdefault(item.panel, []).append(row(item))
    heading = ("setting", "default", "what it is", "allowed", "")
    return "".join(f"\n## {panel}\n\n{table(heading, rows)}" for panel, rows in panels.items())


def row(item: Option) -> tuple[str, ...]:
    return code(item.name), code(item.default), item.help, allowed(item), "●" if item.identity else ""


def allowed(item: Option) -> str:
    """Return what a setting takes; names that are registered stand on a page of their own."""
    if isinstance(item.choices, Registry):
        page = f"choices.md#{item.choices.group.partition('.')[2]}"
        return f"one of [these]({page}), or your own"
    return item.allowed
