"""Commands in a block of a document, one after another, as a shell would see them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePath

ENDS = {">", "|", "&&", "2>"}


@dataclass(frozen=True)
class Command:
    """A program and its arguments."""

    line: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return PurePath(self.words[0]).name

    @property
    def arguments(self) -> list[str]:
        return list(self.words[1:])


def commands(text: str) -> list[Command]:
    """Read a block: comments, continued lines, `A && B`, and what stands before the program itself."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        for part in line.split(" && "):
            words = shlex.split(part, comments=True)
            if words:
                found.append(Command(" ".join(part.split()), tuple(program(words))))
    return found


def program(words: list[str]) -> list[str]:
    """Return the words from the program on: fedactive, if another program starts it."""
    words = [word for word in words if word != "..." and not re.match(r"[A-Z_]+=", word)]
    end = next((i for i, word in enumerate(words) if word in ENDS), len(words))
    words = words[:end]
    words = words[3:] if words[:2] == ["sudo", "-u"] else words
    ours = [i for i, word in enumerate(words) if PurePath(word).name == "fedactive"]
    if ours and words[0] not in ("useradd", "pip", "docker", "python3.11"):
        return words[ours[0] :]
    if words[0] == "docker" and "exec" in words:  # exec SERVICE fedactive ...
        return words[ours[0] :]
    if words[0] == "docker" and "run" in words:  # run --rm SERVICE ...: the image's program is fedactive
        return ["fedactive", *words[words.index("--rm") + 2 :]]
    return words
