"""Methods as their authors published them: settings of an experiment that belong together, under one name.

A method is data: a class with a name and the `settings` that it stands for. `method = "kafal"` sets them all,
and each may still be given otherwise. A strategy for which nothing else was published is a method as it is,
so `--method logo` is `--strategy logo`, the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedactive.errors import unknown_name
from fedactive.registry import METHODS, STRATEGIES

__all__ = ["METHODS", "merge", "method_class", "method_names", "register", "settings_of", "with_method"]

register = METHODS.register

# What has a meaning only beside another setting, and is replaced together with it.
BELONGING = {
    "strategy": ("selector", "strategy_options"),
    "objective": ("objective_options",),
    "algorithm": ("algorithm_options",),
}


def method_names() -> list[str]:
    """List all methods: those with a class, and every strategy."""
    return sorted({*METHODS, *STRATEGIES})


def method_class(name: str) -> Any:
    """Return the class that says what a method is: its own, or that of the strategy of this name."""
    registry = METHODS if name in METHODS else STRATEGIES
    if name not in registry:
        raise unknown_name("method", name, method_names(), METHODS.hint)
    return registry[name]


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings that a method stands for."""
    found = method_class(name)
    return dict(found.settings) if name in METHODS else {"strategy": name}


def with_method(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `method` by the settings that it stands for; those that are given themselves win."""
    given = dict(values)
    name = given.pop("method", None)
    if name is None:
        return given
    replaced = belonging_to(given)
    return {key: value for key, value in settings_of(str(name)).items() if key not in replaced} | given


def merge(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file and of flags, which win; a method among them wins over all its parts."""
    names = flags.get("method", [])
    parts = {part for name in (names if isinstance(names, list) else [names]) for part in settings_of(name)}
    replaced = parts | belonging_to(parts)
    return {key: value for key, value in file.items() if key not in replaced} | dict(flags)


def belonging_to(parts: Iterable[str]) -> set[str]:
    return {setting for part in parts for setting in BELONGING.get(part, ())}
