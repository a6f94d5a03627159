"""Strategies from outside the package: a file named on the command line, or an installed package.

A file is imported and registers its strategies by `@register`. An installed package names its module under
the entry point group `fedactive.strategies`; it is imported along with the strategies that come with us.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path

from fedactive.errors import UserError
from fedactive.query.strategy import OURS, STRATEGIES, parameters_of, parse_options

GROUP = "fedactive.strategies"
FILE_MODULE = "fedactive_plugin_"  # begins the names of modules that come from a file


def load_file(path: Path) -> None:
    """Import a Python file that registers one or more strategies."""
    if not path.is_file():
        raise UserError(f"plugin {path} not found")
    name = FILE_MODULE + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"plugin {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except UserError as error:
        raise UserError(f"plugin {path}: {error}") from error
    except Exception as error:
        raise UserError(f"plugin {path} cannot be loaded: {type(error).__name__}: {error}") from error


def load_installed() -> None:
    """Import the strategies of installed packages."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UserError(
                f"the strategies of {entry.value} cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def code_of(strategy: str, options: str = "") -> str | None:
    """A hash of the files from outside that a strategy is written in; None if there are none."""
    files = {file_of(name) for name in parts_of(strategy, options)}
    hashes = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file)
    if len(hashes) > 1:
        return hashlib.sha256("".join(hashes).encode()).hexdigest()
    return hashes[0] if hashes else None


def parts_of(strategy: str, options: str = "") -> list[str]:
    """The strategy, and those that its options name, as LoGo's micro step is."""
    defaults = {item.name: item.default for item in parameters_of(STRATEGIES[strategy])}
    values = (defaults | parse_options(strategy, options)).values()
    return [strategy, *(value for value in values if value in STRATEGIES)]


def file_of(strategy: str) -> Path | None:
    """Where a strategy from outside is written; None for ours."""
    module = STRATEGIES[strategy].__module__
    path = getattr(sys.modules.get(module), "__file__", None)
    return None if module.startswith(OURS) or path is None else Path(path)
