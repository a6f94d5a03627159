"""README and the documents of results say what results/ says: `make reproduce-check`.

These are commands that a user could give. One process gives them all, since to load the libraries takes
longer than most of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedactive.__main__ import main as fedactive

COMMANDS = (
    "paper document README.md docs/REPRODUCTION.md docs/reproduction/*.md",
    "paper figure agreement -o docs/reproduction/agreement.svg",
    "benchmark document docs/BENCHMARK.md docs/methods/*.md",
    "paper document docs/FEW-LABELS.md",
)


def words_of(command: str) -> list[str]:
    """Replace patterns by the files that they stand for, as a shell does."""
    return [file for word in command.split() for file in (files_like(word) if "*" in word else [word])]


def files_like(pattern: str) -> list[str]:
    found = sorted(map(str, Path().glob(pattern)))
    if not found:
        raise SystemExit(f"{pattern} is missing: it is needed to check the reproduction")
    return found


def main() -> None:
    for command in COMMANDS:
        sys.argv = ["fedactive", *words_of(command), "--from", "results", "--check"]
        try:
            fedactive()
        except SystemExit as end:
            if end.code:
                raise


if __name__ == "__main__":
    main()
