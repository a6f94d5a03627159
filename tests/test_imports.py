"""The rooms of the package, and which of them may know which: imports point one way."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fedactive

PACKAGE = Path(fedactive.__file__).parent

BASE = {"errors", "children", "quick_imports", "files", "options", "registry", "randomness"}
CORE = BASE | {"data", "models", "backbones", "experiment", "federated", "query", "evaluation", "engines"}
LOOP = CORE | {"memory", "federation", "pools", "client", "record", "progress", "loop"}

# What each room of the package may import, besides itself.
ROOMS = {
    "errors": set(),
    "children": set(),
    "quick_imports": set(),
    "randomness": set(),
    "files": {"errors"},
    "options": {"errors", "files"},
    "registry": {"errors", "options"},
    "data": BASE,
    "models": BASE | {"data"},
    "backbones": BASE | {"data", "models"},
    "settling": BASE | {"data", "backbones"},
    "methods": BASE,
    "experiment": BASE | {"data", "backbones", "settling", "methods"},
    "captions": BASE | {"experiment"},
    "federated": BASE | {"data", "experiment", "models"},
    "query": BASE | {"data", "experiment", "models"},
    "evaluation": BASE,
    "engines": CORE - {"engines", "query"},
    "memory": CORE,
    "federation": CORE | {"memory"},
    "pools": CORE | {"memory"},
    "client": CORE | {"memory", "federation", "pools"},
    "progress": BASE | {"experiment", "evaluation"},
    "record": CORE | {"memory", "federation", "client"},
    "loop": LOOP - {"loop"},
    "laboratory": LOOP | {"captions"},
    "sweep": LOOP | {"captions", "laboratory", "methods"},
    "analysis": BASE | {"captions", "data", "experiment", "record"},
    "paper": LOOP | {"laboratory", "sweep", "analysis"},
    "benchmark": LOOP | {"methods", "laboratory", "sweep", "analysis"},
    "sites": LOOP | {"laboratory"},
    "export": LOOP | {"captions", "laboratory", "sites"},
    "api": LOOP | {"laboratory", "sweep", "analysis", "export"},
    "cli": LOOP | {"methods", "laboratory", "sweep", "analysis", "paper", "benchmark", "sites", "export"},
    "__main__": {"cli", "errors"},
    "__init__": {"analysis", "api", "data", "experiment", "export", "progress"},
}

# The same for the rooms of the field; what they may know of the package is above.
BOTTOM = {
    *("messages", "names", "log_lines", "keys", "certificates", "invitation", "sockets", "card"),
    *("moments", "privacy", "monitor"),
}
SITES = {
    "messages": set(),
    "names": set(),
    "log_lines": set(),
    "keys": set(),
    "certificates": {"keys"},
    "invitation": set(),
    "sockets": set(),
    "card": set(),
    "moments": set(),
    "privacy": set(),
    "monitor": {"invitation", "sockets"},
    "labels": {"names"},
    "page": {"labels", "sockets", "certificates"},
    "flower": BOTTOM,
    "coordinator": BOTTOM | {"flower", "page"},  # of the page the server and its limits
    "site": BOTTOM | {"flower", "labels", "page"},
    "rehearsal": BOTTOM | {"flower", "coordinator", "site", "labels"},
}


@cache
def imports_of(file: Path) -> list[str]:
    """The modules that a file imports anywhere, but for those that only a type checker sees."""
    found: list[str] = []
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):  # a block is found before what is in it
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def room_of(file: Path, folder: Path) -> str:
    return file.relative_to(folder).parts[0].removesuffix(".py")


def breaches(folder: Path, prefix: str, rooms: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """(file, module) of every import that the table does not allow."""
    for file in sorted(folder.rglob("*.py")):
        room = room_of(file, folder)
        for module in imports_of(file):
            parts = f"{module}.".removeprefix(prefix).split(".")
            if not f"{module}.".startswith(prefix) or parts[0] not in rooms:
                continue
            if parts[0] != room and parts[0] not in rooms[room]:
                yield str(file.relative_to(PACKAGE)), module


@pytest.mark.parametrize(
    ("folder", "rooms"), [(PACKAGE, ROOMS), (PACKAGE / "sites", SITES)], ids=["fedactive", "sites"]
)
def test_imports_point_one_way(folder, rooms):
    here = {room_of(file, folder) for file in folder.rglob("*.py")} - {"__init__"} | (
        {"__init__"} & rooms.keys()
    )
    assert here == rooms.keys()  # a new room says what it may know
    prefix = ".".join(["fedactive", *folder.relative_to(PACKAGE).parts]) + "."
    found = list(breaches(folder, prefix, rooms))
    assert not found, "\n".join(f"{file} imports {module}" for file, module in found)


@pytest.mark.parametrize("rooms", [ROOMS, SITES], ids=["fedactive", "sites"])
def test_the_table_has_no_circle(rooms):
    placed: set[str] = set()
    while left := {room: known - placed for room, known in rooms.items() if room not in placed}:
        free = {room for room, known in left.items() if not known}
        assert free, f"these know each other: {left}"
        placed |= free


# Libraries of the edge, and the only places that may know them.
LIBRARIES = {
    "typer": ("cli/",),
    "flwr": ("sites/flower/", "sites/coordinator/server_app.py", "laboratory/"),
    "ray": ("laboratory/", "sweep/on_ray.py"),
    "fastapi": ("sites/page/",),
    "onnxruntime": ("backbones/kinds/onnx.py", "export/formats/onnx_graph.py"),
    "onnx": ("export/formats/onnx_graph.py",),
    "safetensors": ("export/formats/safetensors_file.py", "sites/flower/wire.py"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_of_the_edge_stay_there(library):
    users = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for module in imports_of(file)
        if module.split(".")[0] == library
    }
    assert users
    assert [user for user in sorted(users) if not user.startswith(LIBRARIES[library])] == []


def test_no_two_classes_have_one_name():
    places = defaultdict(set)
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(str(file.relative_to(PACKAGE)))
    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert not twice
