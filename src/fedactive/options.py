"""One language for options: a dataclass field with its type, bounds and help, defined once.

`Experiment`, strategies, algorithms and models all declare their options with `option`. From that come the
flags of the command line, the TOML file, the checks and the sentence that says what is allowed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedactive.errors import ConfigurationError, unknown_name
from fedactive.files import expand_home

KINDS = {
    bool: "true or false",  # before int, of which it is a subclass
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}


@dataclass(frozen=True)
class Option:
    """One option: its type, bounds and help."""

    name: str
    kind: type
    default: Any
    help: str
    panel: str  # the heading under which --help shows it
    choices: Iterable[Any] | None  # read when checked, so that names registered later count
    low: float | None
    high: float | None
    identity: bool  # does it decide the result?
    unit: str = ""  # it may also be whole numbers of these, as text: "10/client", by AL round "5+10/client"

    @property
    def allowed(self) -> str:
        """The values that it takes, in words."""
        if self.choices is not None:
            return "one of " + ", ".join(map(str, self.choices))
        what = KINDS[self.kind]
        if self.low is not None and self.high is not None:
            either = f", or whole numbers as in 10{self.unit} or 5+10{self.unit}" if self.unit else ""
            return f"{what} from {_plain(self.low)} to {_plain(self.high)}{either}"
        return what if self.low is None else f"{what}, {_plain(self.low)} or more"


def option(
    default: Any,
    help: str,
    *,
    choices: Iterable[Any] | None = None,
    low: float | None = None,
    high: float | None = None,
    panel: str = "",
    identity: bool = True,
    unit: str = "",
) -> Any:
    """Make a dataclass field that carries its documentation and bounds."""
    about = {"help": help, "panel": panel, "choices": choices, "low": low, "high": high}
    about |= {"identity": identity, "unit": unit}
    return dataclasses.field(default=default, metadata=about)


def options_of(cls: Any) -> tuple[Option, ...]:
    """List the options of a dataclass, or of a class that has them as attributes, as models do."""
    return _options_of(cls)


@functools.cache  # whoever makes a configuration asks for them
def _options_of(cls: Any) -> tuple[Option, ...]:
    fields: Mapping[str, Any] = getattr(cls, "__dataclass_fields__", None) or vars(cls)
    return tuple(
        # By isinstance: the type of a Path is a subclass that depends on the system.
        Option(name, next(k for k in KINDS if isinstance(f.default, k)), f.default, **f.metadata)
        for name, f in fields.items()
        if isinstance(f, dataclasses.Field) and "help" in f.metadata
    )


def check(item: Option, value: Any) -> Any:
    """Return the value as the option's own type; ConfigurationError if it has another or is not allowed."""
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()  # a numpy number, which would be written as np.float64(0.1)
    if item.kind is float and type(value) is int:
        value = float(value)  # so that alpha = 1 and alpha = 1.0 are the same run
    if item.kind is Path and isinstance(value, str | Path):
        value = expand_home(value)
    if item.kind is str and isinstance(value, Path):
        value = str(value)  # for example the path of a dataset
    if item.unit and isinstance(value, str):
        return check_unit(item, value)
    right_type = isinstance(value, item.kind) and isinstance(value, bool) == (item.kind is bool)
    right_type = right_type and value == value  # not NaN
    if right_type and item.choices is not None:
        if value not in item.choices:
            raise unknown_name(item.name, value, map(str, item.choices), getattr(item.choices, "hint", ""))
        return next(choice for choice in item.choices if choice == value)  # as the list spells it
    too_low = right_type and item.low is not None and value < item.low
    too_high = right_type and item.high is not None and value > item.high
    if not right_type or too_low or too_high:
        raise ConfigurationError(item.name, value, item.allowed)
    return value


def check_unit(item: Option, text: str) -> str:
    """Return whole numbers with their unit, as in 10/client or 5+10/client; ConfigurationError for others."""
    numbers = text.removesuffix(item.unit).split("+")
    sound = all(n.isdecimal() and n.isascii() and 0 < int(n) < 2**31 for n in numbers)
    if not sound or not text.endswith(item.unit):
        raise ConfigurationError(item.name, text, item.allowed)
    return "+".join(str(int(n)) for n in numbers) + item.unit


def check_all(configuration: Any) -> None:
    """Check every option of a frozen dataclass in place; called from its __post_init__."""
    for item in options_of(type(configuration)):
        object.__setattr__(configuration, item.name, check(item, getattr(configuration, item.name)))


def parse(items: Sequence[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values of a TOML file or of flags, which are text, to the options' own types."""
    known = {item.name: item for item in items}
    for name in values:
        if name not in known:
            raise unknown_name("setting", name, known)
    return {name: _convert(known[name], value) for name, value in values.items()}


def parse_pairs(field: str, owner: str, cls: Any, text: str) -> dict[str, Any]:
    """Read and check `a=x,b=y` as options of `cls`; leave out those that only repeat a default.

    `field` is the setting that the text was given for, `owner` the name under which `cls` is registered.
    """
    known = {item.name: item for item in options_of(cls)}
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, written = (piece.strip() for piece in part.partition("="))
        if key not in known:
            if not known:
                raise ConfigurationError(field, text, f"nothing: {owner} has no options")
            raise unknown_name(field, key, known)
        if key in given:
            raise ConfigurationError(field, text, f"{key} only once")
        item = dataclasses.replace(known[key], name=f"{field}: {key}")
        given[key] = check(item, _convert(item, written))
    return {key: value for key, value in sorted(given.items()) if value != known[key].default}


def write_pairs(options: Mapping[str, Any]) -> str:
    """Write options as the text that `parse_pairs` reads."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def _convert(item: Option, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if item.kind is bool:
        if value.lower() not in ("true", "false"):
            raise ConfigurationError(item.name, value, item.allowed)
        return value.lower() == "true"
    if item.unit and value.endswith(item.unit):
        return value
    try:
        return item.kind(value)
    except ValueError:
        raise ConfigurationError(item.name, value, item.allowed) from None


def write_toml(items: Sequence[Option], values: Mapping[str, Any]) -> str:
    """Write a TOML file with a comment on each option, grouped by panels."""
    lines: list[str] = []
    for item in items:
        heading = f"# {item.panel}"
        if heading not in lines:
            lines += ["", heading] if lines else [heading]
        lines.append(f"{item.name} = {_toml_value(values[item.name])}  # {item.help}")
    return "\n".join(lines) + "\n"


def _plain(number: float) -> str:
    """Write a number, a whole one with all its digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _toml_value(value: Any) -> str:
    if isinstance(value, str | Path):
        # A JSON string is a TOML string, except for one character that TOML wants escaped.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    # Python writes whole numbers, floats and inf as TOML does.
    return str(value).lower() if isinstance(value, bool) else repr(value)
