"""A site's own words about the classes: DIR/guide.toml, which people who label see as definitions.

[pneumonia]
group = "Lung"
definition = "An opacity with ..."
examples = ["examples/pneumonia-1.png"]     # PNG, JPEG or DICOM, as seen from the file
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedactive.data.deep import Deep
from fedactive.data.pictures import see
from fedactive.errors import DataError, UserError, unknown_name
from fedactive.files import load_toml
from fedactive.sites.page.guide import AboutClass, Guide, Picture

KEYS = ("group", "definition", "examples")
LARGEST = 512  # pixels of an example's longer side


def read_guide(file: Path, classes: Sequence[str]) -> Guide:
    """Read what is said about the classes; nothing where there is no file."""
    if not file.exists():
        return ()
    try:
        tables = load_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{file} is no TOML: {error}") from None
    for name in tables:
        if name not in classes:
            raise unknown_name(f"class in {file.name}", name, classes)
    return tuple(_entry(file, name, tables.get(name, {})) for name in classes)


def _entry(file: Path, name: str, table: Any) -> AboutClass:
    if not isinstance(table, dict):
        raise UserError(f"{file}: {name} is no table: [{name}] and lines below it")
    for key, value in table.items():
        if key not in KEYS:
            raise unknown_name(f"key of [{name}] in {file.name}", key, KEYS)
        wanted = list if key == "examples" else str
        texts = value if isinstance(value, list) else [value]
        if not isinstance(value, wanted) or not all(isinstance(text, str) for text in texts):
            allowed = "a list of files" if key == "examples" else "a text"
            raise UserError(f"{file}: {name}.{key} is {value!r}, allowed is {allowed}")
    examples = tuple(_picture(file.parent / example) for example in table.get("examples", ()))
    return AboutClass(table.get("group", ""), table.get("definition", ""), examples)


def _picture(path: Path) -> Picture:
    """Read an example, small and without what its file says about it."""
    seen = see(path)
    if isinstance(seen, str):
        raise DataError(f"the example {path} cannot be shown: {seen}")
    image = seen.seen_through() if isinstance(seen, Deep) else seen.convert("RGBA")
    image.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue(), "image/png"
