"""`fedactive new`: a first file of your own strategy, model, algorithm or objective, and its test."""

from __future__ import annotations

import keyword
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fedactive.cli.options import CHOICES, example
from fedactive.errors import ConfigurationError
from fedactive.registry import REGISTRIES

app = typer.Typer()
BY_KIND = {registry.kind: registry for registry in REGISTRIES}


class Kind(StrEnum):
    STRATEGY = "strategy"
    MODEL = "model"
    ALGORITHM = "algorithm"
    OBJECTIVE = "objective"


@app.command(rich_help_panel=CHOICES, epilog=example("fedactive new strategy mine"))
def new(
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", help="What to write: strategy, model, algorithm or objective.")
    ],
    name: Annotated[str, typer.Argument(help="Its name: letters, digits and _.", metavar="NAME")],
    folder: Annotated[Path, typer.Option(help="Write into this folder.")] = Path(),
) -> None:
    """Write NAME.py, which works as it stands, and test_NAME.py, which checks its contract."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigurationError("name", name, "small letters, digits and _, beginning with a letter")
    if name in BY_KIND[kind].ours:
        raise ConfigurationError("name", name, f"a name that no {kind} of fedactive has")
    written = [folder / f"{name}.py", folder / f"test_{name}.py"]
    for path in written:
        if path.exists():
            raise ConfigurationError("name", name, f"one whose files do not exist yet: {path} does")
    title = "".join(part.capitalize() for part in name.split("_"))
    folder.mkdir(parents=True, exist_ok=True)
    for path, template in zip(written, (f"{kind}.py.txt", f"test_{kind}.py.txt"), strict=True):
        text = files("fedactive.cli").joinpath("templates", template).read_text(encoding="utf-8")
        path.write_text(text.format(module=name, title=title), encoding="utf-8")
    print(f"{written[0]}: yours to change; {written[1]}: its test, for pytest")
    print(f"now: fedactive run --plugin {written[0]} --{kind} {name}")
