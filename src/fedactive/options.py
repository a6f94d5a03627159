"""Documented settings: a dataclass field with its help, what it allows, and how it is read and written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedactive.errors import ConfigurationError, unknown_name
from fedactive.files import at_home


@dataclass(frozen=True)
class Setting:
    name: str
    kind: type
    default: Any
    help: str
    panel: str  # the heading under which --help shows it
    choices: Iterable[str] | None  # looked at when checked, so that names registered later count
    low: float | None
    high: float | None
    identity: bool  # does it decide the result?

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        if self.choices is not None:
            return "one of " + ", ".join(self.choices)
        what = {int: "a whole number", float: "a number", Path: "a path", str: "text"}[self.kind]
        if self.low is not None and self.high is not None:
            return f"{what} from {_plain(self.low)} to {_plain(self.high)}"
        return what if self.low is None else f"{what}, {_plain(self.low)} or more"


def setting(
    default: Any,
    help: str,
    panel: str,
    *,
    choices: Iterable[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    identity: bool = True,
) -> Any:
    """A dataclass field that carries its documentation and bounds."""
    metadata = {
        "help": help,
        "panel": panel,
        "choices": choices,
        "low": low,
        "high": high,
        "identity": identity,
    }
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(cls: Any) -> list[Setting]:
    kinds = (int, float, str, Path)  # a Path's own type is a subclass that depends on the system
    return [
        Setting(
            name=f.name,
            kind=next(kind for kind in kinds if isinstance(f.default, kind)),
            default=f.default,
            **f.metadata,
        )
        for f in dataclasses.fields(cls)
    ]


def check(item: Setting, value: Any) -> Any:
    """The value as the setting's own type; ConfigurationError if it is of another type or not allowed."""
    if isinstance(value, np.generic):
        value = value.item()  # a number of an array: it would be written as np.float64(0.1)
    if item.kind is float and type(value) is int:
        value = float(value)  # so that alpha = 1 and alpha = 1.0 are the same run
    if item.kind is Path and isinstance(value, str | Path):
        value = at_home(value)
    if item.kind is str and isinstance(value, Path):
        value = str(value)  # of a dataset, for one
    right_type = isinstance(value, item.kind) and not isinstance(value, bool) and value == value  # not NaN
    if right_type and item.choices is not None and value not in item.choices:
        raise unknown_name(item.name, value, item.choices)
    too_low = right_type and item.low is not None and value < item.low
    too_high = right_type and item.high is not None and value > item.high
    if not right_type or too_low or too_high:
        raise ConfigurationError(item.name, value, item.allowed)
    return value


def parse(items: Sequence[Setting], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a TOML file or of flags (which are text) as the settings' own types."""
    known = {item.name: item for item in items}
    parsed = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_name("setting", name, known)
        parsed[name] = _convert(known[name], value)
    return parsed


def _convert(item: Setting, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return item.kind(value)
    except ValueError:
        raise ConfigurationError(item.name, value, item.allowed) from None


def write_toml(items: Sequence[Setting], values: Mapping[str, Any]) -> str:
    """A commented TOML file, by panels."""
    lines: list[str] = []
    for item in items:
        heading = f"# {item.panel}"
        if heading not in lines:
            lines += ["", heading] if lines else [heading]
        lines.append(f"{item.name} = {_toml_value(values[item.name])}  # {item.help}")
    return "\n".join(lines) + "\n"


def _plain(number: float) -> str:
    """Whole numbers with all their digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _toml_value(value: Any) -> str:
    if isinstance(value, str | Path):
        # JSON's strings are TOML's, too, but for one character that TOML wants escaped.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)  # Python writes whole numbers, floats and inf as TOML does
