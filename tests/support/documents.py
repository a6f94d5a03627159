"""Code that documents show, to run what readers would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, and what is written above it."""

    language: str  # empty for commands
    text: str
    above: str  # up to the block before
    line: int


def documents() -> list[Path]:
    """List all documents that readers are given."""
    return [
        *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")),
        *sorted(DOCS.rglob("*.md")),
    ]


def blocks(document: Path) -> list[Block]:
    """Find the blocks of a document, in order."""
    text, end, found = document.read_text(encoding="utf-8"), 0, []
    for block in BLOCK.finditer(text):
        above, line = text[end : block.start()], text.count("\n", 0, block.start()) + 1
        found.append(Block(block[1], block[2], above, line))
        end = block.end()
    return found


def python_block(document: str, containing: str = "") -> str:
    """The first block of Python in a document that has these words."""
    found = (block.text for block in blocks(DOCS / document) if block.language == "python")
    return next(text for text in found if containing in text)


def saved_as(block: Block) -> str | None:
    """The name of the file as which readers are told to save a block."""
    found = re.findall(r"as\s+`(\w+\.py)`", block.above)
    return found[-1] if found else None


def plugin_from(document: str, folder: Path) -> Path:
    """The document's example as a file, saved as the document says."""
    block = next(block for block in blocks(DOCS / document) if saved_as(block))
    file = folder / (saved_as(block) or "")
    file.write_text(block.text, encoding="utf-8")
    return file
