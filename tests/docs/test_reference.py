"""The reference of the documentation: whatever the program knows is on one of its pages."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import click
import pytest
import typer

import fedactive
from fedactive.cli.app import app
from fedactive.experiment import Experiment
from fedactive.options import options_of
from fedactive.record.schema import SELECTIONS, TIMINGS, metrics_columns
from fedactive.registry import AUGMENTATIONS, BACKBONES, REGISTRIES
from fedactive.sites.messages import KINDS, PROBLEMS
from support.documents import DOCS

HOOKS = DOCS / "hooks"


@pytest.fixture(scope="module")
def generated() -> Iterator[dict[str, str]]:
    """The pages that the program writes, by their places."""
    before = set(sys.modules)
    sys.path.insert(0, str(HOOKS))
    try:
        yield module("generated").pages()
    finally:
        sys.path.remove(str(HOOKS))
        for name in set(sys.modules) - before:
            if (HOOKS / f"{name}.py").exists():
                del sys.modules[name]


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOOKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    parts = getattr(command, "commands", {})
    if not parts:
        yield path, command
    for name, part in parts.items():
        yield from leaves(part, f"{path} {name}")


def test_every_command_and_option_is_on_a_page(generated: dict[str, str]):
    pages = "\n".join(text for place, text in generated.items() if "/commands/" in place)
    sections = dict(re.findall(r"^## (fedactive .*?)\n(.*?)(?=^## |\Z)", pages, re.DOTALL | re.MULTILINE))
    for path, command in leaves(typer.main.get_command(app), "fedactive"):
        assert path in sections
        for parameter in command.params:
            for name in () if getattr(parameter, "hidden", False) else parameter.opts:
                written = name if name.startswith("-") else parameter.make_metavar(click.Context(command))
                assert f"`{written}`" in sections[path], f"{path} {name}"
        assert command.help.split("\n")[0].split(". ")[0] in " ".join(sections[path].split())


def test_every_setting_is_on_a_page(generated: dict[str, str]):
    rows = generated["reference/configuration.md"].splitlines()
    for item in options_of(Experiment):
        (row,) = (row for row in rows if row.startswith(f"| `{item.name}` |"))
        assert item.help.replace("|", "\\|") in row


def test_everything_that_can_be_chosen_is_on_a_page(generated: dict[str, str]):
    page = generated["reference/choices.md"]
    for registry in (*REGISTRIES, BACKBONES, AUGMENTATIONS):
        for name in registry.ours:
            assert f"| `{name}` | {registry[name].summary}".split("|")[2].strip() in page
            assert all(f"`{option.name}={option.default}`" in page for option in options_of(registry[name]))


def test_every_public_name_is_on_a_page():
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: fedactive\.(\w+)$", page, re.MULTILINE)) == set(fedactive.__all__)


def test_every_column_and_message_is_on_a_page():
    folder = (DOCS / "reference" / "run-folder.md").read_text(encoding="utf-8")
    assert all(f"`{column}`" in folder for column in {**metrics_columns(), **SELECTIONS, **TIMINGS})
    messages = (DOCS / "reference" / "messages.md").read_text(encoding="utf-8")
    assert all(f"| `{kind}` |" in messages for kind in KINDS)
    assert all(f"| {number} | {problem} |" in messages for number, problem in enumerate(PROBLEMS, 1))


def test_a_picture_of_a_tutorial_stands_beside_the_command_that_makes_it():
    pictures = module("pictures")
    pages = sorted((DOCS / "tutorials").glob("*.md"))
    assert sum(len(pictures.pictures_of(page)) for page in pages) > 0
    for page in pages:
        drawn = {words[words.index("-o") + 1] for words in pictures.commands_of(page) if "-o" in words}
        assert set(pictures.pictures_of(page)) <= drawn
