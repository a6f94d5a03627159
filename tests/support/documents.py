"""Code that documents show, to run what readers would."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def python_block(document: str, number: int = 0) -> str:
    """A block of Python in a document, the first unless another number is given."""
    text = (DOCS / document).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)[number]


def plugin_from(document: str, folder: Path) -> Path:
    """The document's example as a file, saved as the document says."""
    text = (DOCS / document).read_text(encoding="utf-8")
    file = folder / re.findall(r"as\s+`(\w+\.py)`", text)[0]
    file.write_text(python_block(document), encoding="utf-8")
    return file
