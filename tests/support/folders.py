"""Folders of a coordinator and of a site, as their `init` makes them."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.member import Member
from fedactive.sites.site.folder import Site

CLASSES = ("cat", "dog")


def make_coordinator(tmp_path: Path) -> Coordinator:
    return Coordinator.init(tmp_path / "coordinator", "coordinator.example.org:9443")


def make_site(tmp_path: Path) -> Site:
    """Five images, and two test images of each class."""
    write_pictures(tmp_path / "images", 5)
    for name in CLASSES:
        write_pictures(tmp_path / "test" / name, 2)
    (tmp_path / "classes.txt").write_text("cat\n\ndog\n")
    folder, images, test = (tmp_path / name for name in ("site", "images", "test"))
    return Site.init(folder, "north", images, tmp_path / "classes.txt", test)


def write_pictures(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(zlib.crc32(folder.name.encode()))
    for k in range(count):
        Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(folder / f"{k}.png")


def admit(coordinator: Coordinator, count: int, dismissed: tuple[int, ...] = ()) -> None:
    coordinator.write_sites([member(k, k in dismissed) for k in range(count)])


def member(k: int, dismissed: bool = False) -> Member:
    return Member(f"site {k}", k, f"key {k}", dismissed)
