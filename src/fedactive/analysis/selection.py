"""Choose runs by their settings, as in `dataset=svhn,cifar10`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedactive.errors import ConfigurationError, unknown_name
from fedactive.experiment import Experiment
from fedactive.options import options_of, parse
from fedactive.record.stored import StoredRun

Wanted = dict[str, list[Any]]  # by setting, the values that it may have


def wanted_settings(words: Iterable[str]) -> Wanted:
    """Read `name=value,value` words."""
    options = options_of(Experiment)
    wanted: Wanted = {}
    for word in words:
        name, sign, values = word.partition("=")
        if not sign:
            raise ConfigurationError("where", word, "a setting and its values, as in dataset=svhn,cifar10")
        wanted[name] = [parse(options, {name: value})[name] for value in values.split(",")]
    return wanted


def check_settings(names: Iterable[str]) -> None:
    """Refuse names that are no settings."""
    known = [item.name for item in options_of(Experiment)]
    for name in names:
        if name not in known:
            raise unknown_name("setting", name, known)


def has_settings(run: StoredRun, wanted: Wanted) -> bool:
    settings = dict(run.identity)
    return all(settings.get(name) in values for name, values in wanted.items())
