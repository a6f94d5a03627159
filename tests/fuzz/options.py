"""Any command with any options: nothing that is typed may end in a traceback."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from fedactive.cli.app import app
from fedactive.experiment import Experiment
from fedactive.options import Option, options_of
from fuzz.command import all_commands
from fuzz.inputs import fill, text
from fuzz.sound import TINY, Sound

# These do what they say, for minutes or for ever, or fetch files; their files are fuzzed by other commands.
LEFT_OUT = ("demo", "data get", "coordinator serve", "site serve")
SETTINGS = {item.name: item for item in options_of(Experiment)}
# Other values of these mean more work, and of those other processes: neither is a mistake.
WORK = {"clients", "rounds", "fl_rounds", "local_epochs", "local_only_epochs"}
ELSEWHERE = {"workers", "federation", "track", "runs_dir"}


@cache
def commands() -> dict[str, click.Command]:
    return dict(walk("", all_commands(app)))


def walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(f"{path} {name}".strip(), below)
    if path and path not in LEFT_OUT:
        yield path, command


def typed(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """A command with arguments and options that somebody mistypes; there are no data to work with."""
    fill(place, rng)
    path = rng.choice(sorted(commands()))
    words = path.split()
    for parameter in commands()[path].params:
        if isinstance(parameter, click.Argument):
            words += [text(rng) for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 2)))]
        elif parameter.required or rng.random() < 4 / len(commands()[path].params):
            words += option(parameter, rng)
    if rng.random() < 0.05:
        words.insert(rng.randrange(len(words) + 1), text(rng))
    return words


def option(parameter: click.Parameter, rng: random.Random) -> list[str]:
    name = rng.choice(parameter.opts)
    if getattr(parameter, "is_flag", False):
        return [name]
    value = likely(SETTINGS[parameter.name], rng) if parameter.name in SETTINGS else None
    if value is None or rng.random() < 0.5:
        value = text(rng)
    return [f"{name}={value}"] if rng.random() < 0.5 else [name, value]


def likely(item: Option, rng: random.Random) -> str | None:
    """A value that may be allowed: the default, another choice, or a bound and what is next to it."""
    known = [item.default, *(item.choices or ())]
    known += [bound + step for bound in (item.low, item.high) if bound is not None for step in (-1, 0, 1)]
    value = str(rng.choice(known))
    return None if value == "digits" else value  # which come with the package, and would be trained on


def settings(rng: random.Random, place: Path, sound: Sound) -> list[str]:
    """A run that takes a moment, but for one or two settings: if they are allowed, it is trained."""
    values = TINY | {"dataset": str(rng.choice((sound.images, sound.features)))}
    for name in rng.sample(sorted(SETTINGS.keys() - WORK - ELSEWHERE), rng.choice((1, 1, 2, 3))):
        value = likely(SETTINGS[name], rng)
        values[name] = text(rng) if value is None or rng.random() < 0.4 else value
    for name in rng.sample(sorted(WORK), rng.choice((0, 0, 1))):
        values[name] = rng.choice(("0", "1", "2", "3", "-1", "nan", "1.5", ""))
    return ["run", *flags(values)]


def flags(values: dict[str, str]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
