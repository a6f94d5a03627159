"""A reader of a document, who does all that it says, in a folder with what it says that they have."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import typer
from typer.testing import CliRunner

from fedactive import Silent, run
from fedactive.cli.app import app
from fedactive.cli.options import load_plugins, read_config
from fedactive.experiment import Experiment, parse_toml
from fedactive.methods import merge
from fedactive.options import options_of
from fedactive.sweep.grid import expand
from support.documents import ROOT, Block, saved_as
from support.not_run import COMMANDS, FOREIGN, PROGRAMS, why_not
from support.picture_files import drawing
from support.shell import Command, commands
from support.toml_blocks import read_toml

TOP = typer.main.get_command(app)
QUICK = "--rounds 2 --fl-rounds 1 --local-epochs 1 --local-only-epochs 1 --device cpu --workers 1"
# What stands for something of the reader's own, by group of commands.
PLACES = {
    "coordinator": {"DIR": "coordinator", "site.pub": "site/site.pub"},
    "site": {
        "DIR": "site",
        "IMAGES": "images",
        "TEST_IMAGES": "test",
        "invitation.toml": "*/invitation.toml",
    },
}


GRID_THAT_RUNS = "tutorials/compare.md"


class Reader:
    """Reads one document from its beginning to its end."""

    def __init__(self, document: str, folder: Path, names: dict[str, Any]) -> None:
        self.document, self.folder = document, folder
        self.names = {"__name__": "document", **names}  # what the reader's own program has

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        try:
            getattr(self, block.language or "bash")(block)
        except Exception as error:
            error.add_note(f"{self.document}:{block.line}")
            raise

    def bash(self, block: Block) -> None:
        for command in commands(block.text):
            self.give(command)

    def python(self, block: Block) -> None:
        if name := saved_as(block):
            (self.folder / name).write_text(block.text, encoding="utf-8")
        if not why_not(PROGRAMS, self.document, block.text):
            program = compile(block.text, f"{self.document}:{block.line}", "exec", dont_inherit=True)
            exec(program, self.names)

    def text(self, block: Block) -> None:
        """Nothing to do: a formula, or what a command printed."""

    def csv(self, block: Block) -> None:
        heading, *rows = csv.reader(block.text.splitlines())
        assert rows
        assert {len(row) for row in rows} == {len(heading)}
        if heading[0] == "path":  # a table of images
            for number, row in enumerate(rows):
                file = self.folder / "path" / "to" / row[0]
                file.parent.mkdir(parents=True, exist_ok=True)
                drawing(number % 2, number).save(file)
            (self.folder / "path" / "to" / "images.csv").write_text(block.text, encoding="utf-8")

    def xml(self, block: Block) -> None:
        ElementTree.fromstring(block.text)

    def toml(self, block: Block) -> None:
        read_toml(self.document, block.text, self.folder)
        if named := re.findall(r"as\s+`(\w+\.toml)`", block.above):
            (self.folder / named[-1]).write_text(block.text, encoding="utf-8")

    # --- commands

    def give(self, command: Command) -> None:
        """Give a command, or see at least that it would be understood."""
        if command.program == "fedactive":
            words = self.words(command.arguments)
            if words[0] == "compare" and self.document == GRID_THAT_RUNS:
                self.compare(words)
            elif why_not(COMMANDS, self.document, " ".join(command.arguments)):
                self.understand(words)
            else:
                self.run(words)
        elif command.program == "make":
            assert re.search(rf"^{command.arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif command.program == "pip":
            extras = re.findall(r"\[(.+)\]", command.line)[0].split(",")
            assert all(
                re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.M) for extra in extras
            )
        elif command.program == "python":
            script, *options = command.arguments
            program = (ROOT / script).read_text()
            named = [option[2:].replace("-", "_") for option in options if option.startswith("--")]
            assert all(re.search(rf"\b{name}: Annotated", program) for name in named)
        else:
            assert command.program in FOREIGN, command.line

    def words(self, arguments: list[str]) -> list[str]:
        """The words of a command, with the reader's own folders in place of DIR and the like."""
        places = PLACES.get(arguments[0], {})
        named = [places.get(word, word) for word in arguments]
        found = [sorted(self.folder.glob(word)) if "*" in word else [] for word in named]
        return [str(path) for word, paths in zip(named, found, strict=True) for path in paths or [word]]

    def run(self, words: list[str]) -> None:
        quick = QUICK.split() if words[0] == "run" else []
        if quick and not {"--model", "--backbone", "--method"} & set(words):
            quick += ["--model", "mlp"]
        if quick and "--backbone" in words:
            quick += ["--image-size", "64"]
        if quick and not {"--clients", "--partition"} & set(words):
            quick += ["--clients", "3"]
        done = CliRunner().invoke(app, [*words, *quick], prog_name="fedactive")
        assert done.exit_code == 0, f"{' '.join(words)}: {done.exception!r}\n{done.output}"

    def compare(self, words: list[str]) -> None:
        """Do the runs of a grid one after another in this process, of two seeds and with few FL rounds."""
        grid = self.understand(words)
        for experiment in grid:
            if experiment.seed <= 2:
                run(
                    replace(experiment, model="mlp", rounds=2, fl_rounds=1, local_epochs=1, workers=1),
                    Silent(),
                )

    def understand(self, words: list[str]) -> list[Experiment]:
        """Read a command as the command line does; return the experiments that it would run, if it is to run any."""
        command, rest, path = TOP, list(words), "fedactive"
        while isinstance(command, click.Group):
            path = f"{path} {rest[0]}"
            command = command.commands[rest.pop(0)]
        given = command.make_context(path, rest).params  # a mistake is a UsageError
        known = {item.name for item in options_of(Experiment)} | {"method"}
        values = {name: value for name, value in given.items() if name in known and value is not None}
        if path not in ("fedactive run", "fedactive compare"):
            return []
        load_plugins(list(map(Path, given["plugin"] or ())))
        config = parse_toml(read_config(given["config"] and Path(given["config"])))
        if path.endswith("run"):
            return [Experiment.from_values(merge(config, values))]
        return expand(merge(config, {name: split(name, value) for name, value in values.items()}))


def split(name: str, text: str) -> list[str]:
    return [value.strip() for value in text.split(";" if name.endswith("_options") else ",")]
