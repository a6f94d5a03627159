"""What commands share: options, examples, and the flags that come from the settings of `Experiment`.

Nothing here, nor at the head of any file with commands, imports PyTorch or pandas: `--help`, completion and
the answer to a typing mistake must not wait for them. A command imports what it needs when it is called.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fedactive.backbones.find import KINDS_OF_FILES
from fedactive.data.catalog import DATASETS
from fedactive.errors import ConfigurationError, plain
from fedactive.experiment import Experiment
from fedactive.files import load_toml
from fedactive.options import Option, options_of
from fedactive.registry import AUGMENTATIONS, BACKBONES, METHODS, STRATEGIES, Registry, load_plugin

F = TypeVar("F", bound=Callable[..., None])

LABORATORY, CHOICES, PAPER, FIELD = "Laboratory", "Methods and data", "Paper", "Field"  # panels of --help


def example(command: str) -> str:
    """Return the end of a command's help. It stands on one line of a terminal, to be copied."""
    return f"Example: `{command}`"


def completion(names: Iterable[Any]) -> Callable[..., list[str]]:
    """Make a function that completes one of these names, also as the last of several with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if str(name).startswith(last)]

    return complete


Config = Annotated[Path | None, typer.Option("--config", help="Read settings from this TOML file.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        help="Load strategies, objectives, models, methods and the like from this file (repeatable).",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Start runs again whose data or plugin has changed since; their old folders move to .outdated.",
    ),
]
DataDir = Annotated[Path, typer.Option(help="Look for datasets in this folder.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="INT",
        help="Number of runs at a time; by default one per core on a CPU, 4 on each GPU.",
        min=1,
    ),
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        help="Where to run: here, or ray, which is the cluster at RAY_ADDRESS or a Ray of its own.",
        autocompletion=completion(("here", "ray")),
    ),
]


def name_argument(help: str, names: Iterable[str]) -> Any:
    """Make the argument NAME of a command; `names` complete it."""
    return typer.Argument(help=help, metavar="NAME", autocompletion=completion(names))


def print_remarks(kind: str, remarks: Iterable[tuple[Path, str]]) -> None:
    """Print what is to be said of files on standard error, as in `skipped: PATH: why`."""
    for path, what in remarks:
        print(plain(f"{kind}: {path}: {what}"), file=sys.stderr)


def load_plugins(paths: Sequence[Path] | None) -> None:
    for path in paths or ():
        load_plugin(path)


def read_config(path: Path | None) -> str:
    """Return the text of a TOML file; an empty one if there is none."""
    if path is not None and not path.is_file():
        raise ConfigurationError("config", str(path), "a TOML file that exists")
    try:
        text = path.read_text(encoding="utf-8-sig") if path else ""  # Windows may begin it with a mark
        load_toml(text)
        return text
    except UnicodeDecodeError:
        raise ConfigurationError("config", str(path), "a TOML file, which is text") from None
    except ValueError as error:
        raise ConfigurationError(
            "config", str(path), f"a TOML file of `name = value` lines; {error}"
        ) from None


# --- flags made from definitions elsewhere


def flag(name: str, kind: type, help: str, **more: Any) -> inspect.Parameter:
    """Make a flag that is None unless the user gives it; `more` is what `typer.Option` takes."""
    annotation = Annotated[kind | None, typer.Option(help=help, **more)]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def with_flags(flags: Iterable[inspect.Parameter]) -> Callable[[F], F]:
    """Give a command these flags in place of its `**flags`; a decorator."""

    def decorate(command: F) -> F:
        written = inspect.signature(command, eval_str=True).parameters.values()
        own = [p for p in written if p.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters = [*(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *flags]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


# Names for settings that may also be the path of a file.
OR_FILES: dict[str, Iterable[Any]] = {"dataset": DATASETS, "backbone": set(BACKBONES.ours) - KINDS_OF_FILES}
OR_FILES["augment"] = [*AUGMENTATIONS.ours, "none"]


def setting_flag(item: Option) -> inspect.Parameter:
    """Make the flag of a setting. Its value is text: the setting itself says what is wrong with it."""
    if isinstance(item.choices, Registry):
        # Only ours: those of installed packages are known once they are imported, and so is PyTorch then.
        item = dataclasses.replace(item, choices=item.choices.ours)
    names = OR_FILES.get(item.name, item.choices)
    default = f"default {item.default}" if item.default != "" else "none by default"
    return flag(
        item.name,
        str,
        f"{item.help[0].upper()}{item.help[1:]} ({item.allowed}; {default})",
        metavar=item.kind.__name__.upper(),
        rich_help_panel=item.panel,
        autocompletion=completion(names) if names is not None else None,
    )


METHOD = flag(
    "method",
    str,
    "Strategy, training and what belongs to them, as published (see `fedactive methods`); other flags win.",
    metavar="STR",
    rich_help_panel="Active learning",
    autocompletion=completion(sorted({*METHODS.ours, *STRATEGIES.ours})),
)

# `--mu 0.1` was a setting once. It still works, and means `--algorithm-options mu=0.1` of FedProx.
SETTINGS = [*map(setting_flag, options_of(Experiment)), flag("mu", str, "", hidden=True)]
