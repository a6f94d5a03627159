"""The targets of the fuzz test, and one case: numbered, so that it can be had again."""

from __future__ import annotations

import random
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz import data_files, options, own_files
from fuzz.command import Answer, give
from fuzz.sound import Sound

Target = Callable[[random.Random, Path, Sound], list[str]]

TARGETS: dict[str, Target] = {
    "typed": options.typed,
    "settings": options.settings,
    "toml": own_files.toml,
    "npz": data_files.npz,
    "pictures": data_files.pictures,
    "dicom": data_files.dicom,
    "models": own_files.models,
    "runs": own_files.runs,
    "results": own_files.results,
    "sites": own_files.sites,
}


@dataclass(frozen=True)
class Case:
    target: str
    seed: int
    number: int

    def prepare(self, place: Path, sound: Sound) -> list[str]:
        """Make the folder with its input; return the command."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        rng = random.Random(f"{self.target} {self.seed} {self.number}")
        return TARGETS[self.target](rng, place, sound)

    def run(self, place: Path, sound: Sound) -> tuple[list[str], Answer]:
        words = self.prepare(place, sound)
        return words, give(words, place)

    def describe(self, words: list[str], answer: Answer, place: Path) -> str:
        again = f'make fuzz FUZZ="--only {self.target} --seed {self.seed} --case {self.number}"'
        said = [f"  exit code {answer.code}", *answer.out.splitlines()[-5:], *answer.err.splitlines()[-5:]]
        return "\n".join(
            [
                f"{self.target} {self.seed}/{self.number}: in {place}, again with {again}",
                f"  fedactive {shlex.join(words)}"[:1000],
                *(line[:500] for line in said),
                *answer.problems,
            ]
        )
