"""Blocks of TOML in documents, each read by that part of fedactive for which it is meant."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from PIL import Image

from fedactive.benchmark.suite import read_suite
from fedactive.experiment import parse_toml
from fedactive.registry import AUGMENTATIONS, BACKBONES, METHODS, REGISTRIES
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.site.guide import read_guide
from fedactive.sweep.grid import expand
from support import dicoms
from support.documents import DOCS, blocks


def read_toml(document: str, text: str, folder: Path) -> None:
    """Read a block; what is wrong in it is an error."""
    tables = tomllib.loads(text)
    if "project" in tables:
        groups = {registry.group for registry in (*REGISTRIES, BACKBONES, METHODS, AUGMENTATIONS)}
        assert set(tables["project"]["entry-points"]) <= groups
    elif "methods" in tables:
        assert read_suite("mine", text).methods
    elif "images" in tables or "field" in tables:
        plan = text if "dataset" in tables else within_a_plan(text)
        assert FieldPlan.from_toml(plan, backbones=folder).rules
    elif all(isinstance(table, dict) for table in tables.values()):
        read_classes_guide(tables, text, folder)
    else:
        assert expand(parse_toml(text))


def within_a_plan(text: str) -> str:
    """The plan in docs/FIELD.md, with this table [images] in place of its own."""
    plan = next(block.text for block in blocks(DOCS / "FIELD.md") if block.language == "toml")
    return re.sub(r"^\[images\].*?(?=^\[)", lambda _: text, plan, flags=re.DOTALL | re.MULTILINE)


def read_classes_guide(tables: dict[str, dict[str, list[str]]], text: str, folder: Path) -> None:
    for example in (example for table in tables.values() for example in table.get("examples", [])):
        (folder / example).parent.mkdir(exist_ok=True)
        if example.endswith(".dcm"):
            dicoms.copy("CT_small", folder / example)
        else:
            Image.new("L", (20, 20)).save(folder / example)
    (folder / "guide.toml").write_text(text, encoding="utf-8")
    assert any(about.definition for about in read_guide(folder / "guide.toml", tuple(tables)))
