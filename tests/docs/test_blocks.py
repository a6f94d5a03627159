"""Every block of code in every document does what it says, in order, as for a reader who follows it.

Commands run on small data with few FL rounds. What cannot run here is understood by the real command line;
`support/not_run.py` lists it, with the reasons.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

from fedactive import Dataset, Experiment, Result, Silent, run
from fedactive.query import Outputs, Pool
from support.documents import ROOT, blocks, documents
from support.folders import CLASSES, make_coordinator, make_site, write_pictures
from support.not_run import COMMANDS, PROGRAMS, why_not
from support.picture_files import drawing, write_folder, write_split
from support.reader import Reader
from support.shell import commands

WITH_BLOCKS = [document for document in documents() if blocks(document)]
FROM_THE_BEGINNING = ("FIELD.md", "tutorials/two-hospitals.md")  # these make coordinator and site themselves


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix().removeprefix("docs/")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What documents say that readers have: images, arrays, earlier runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "cache"))
    write_split(tmp_path / "path" / "to" / "flowers", each=20)
    shutil.copytree(tmp_path / "path" / "to" / "flowers" / "train", tmp_path / "photographs")
    for client in ("clients/north", "clients/south", "test"):
        write_folder(tmp_path / "hospitals", f"{client}/ant", f"{client}/bee")
    rng, labels = np.random.default_rng(1), np.arange(60) % 2
    write_arrays(tmp_path / "path" / "to" / "vectors.npz", "features", rng.normal(size=(60, 4)), labels)
    write_arrays(tmp_path / "path" / "to" / "mine.npz", "images", np.zeros((60, 8, 8), np.uint8), labels)
    for name in ("features.npz", "texts.npz"):
        shutil.copy(tmp_path / "path" / "to" / "vectors.npz", tmp_path / name)
    (tmp_path / "grid.toml").write_text('dataset = "digits"\nseed = [1, 2]\n')
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    return tmp_path


def write_arrays(file: Path, kind: str, samples: np.ndarray, labels: np.ndarray) -> None:
    parts = ("train", "test")
    np.savez(file, **{f"{p}_{kind}": samples for p in parts}, **{f"{p}_labels": labels for p in parts})


def field(folder: Path, document: str) -> None:
    """The folders of a coordinator and a site, or what they are made of."""
    if document not in FROM_THE_BEGINNING:
        make_coordinator(folder)
        make_site(folder).join(folder / "coordinator" / "invitation.toml")
        return
    for images, test in (("images", "test"), ("scans", "known")):
        write_pictures(folder / images, 5)
        for name in CLASSES:
            write_pictures(folder / test / name, 2)
    (folder / "classes.txt").write_text("\n".join(CLASSES))


def pool() -> Pool:
    """A pool of three samples of two classes, and one labelled sample."""
    three = Outputs(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]]), torch.ones(3, 2))
    one = Outputs(three.logits[:1], three.embeddings[:1])
    head = (torch.ones(2, 2), torch.zeros(2))
    return Pool(
        3, 2, torch.tensor([0]), lambda _: three, lambda _: one, lambda _: head, lambda _: iter([three] * 6)
    )


def pictures(*_: Any, **__: Any) -> list[tuple[Image.Image, int]]:
    return [(drawing(k % 2, k), k % 2) for k in range(200)]


class Rows(list[dict[str, Any]]):
    """A dataset of Hugging Face: rows, and the names of classes."""

    features: ClassVar = {"labels": SimpleNamespace(names=["ant", "bee"])}


def hurry(experiment: Experiment) -> Result:
    """Run an experiment with a smaller model, fewer clients and rounds than the document says."""
    return run(replace(experiment, model="mlp", clients=3, rounds=2, fl_rounds=1), Silent())


def having(document: str) -> dict[str, Any]:
    """The names that a reader's own program has by then. Packages that cannot be installed here are stood in for."""
    if document == "STRATEGIES.md":
        return {"pool": pool()}
    if document == "DATASETS.md":
        a, b = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
        torchvision = SimpleNamespace(datasets=SimpleNamespace(Flowers102=pictures))
        rows = Rows({"image": image, "labels": label} for image, label in pictures())
        beans = SimpleNamespace(load_dataset=lambda _: {"train": rows, "test": rows})
        arrays = {"a": a, "b": b, "c": a, "d": b}
        in_a_hurry = SimpleNamespace(Dataset=Dataset, Experiment=Experiment, run=hurry)
        return {"fedactive": in_a_hurry, "torchvision": torchvision, "datasets": beans, **arrays}
    return {}


@pytest.mark.parametrize("document", WITH_BLOCKS, ids=name_of)
def test_what_a_document_shows_works(document: Path, folder: Path, small: Callable[..., Experiment]):
    name, shown = name_of(document), " ".join(block.text for block in blocks(document))
    if "fedactive site" in shown or "fedactive coordinator" in shown:
        field(folder, name)
    if re.search(r"(export|report|table) runs|runs_in|\"runs\"", shown):  # of earlier days
        run(small(), Silent())
    reader = Reader(name, folder, having(name))
    for block in blocks(document):
        reader.follow(block)


def test_whatever_is_not_run_is_there():
    """A line about something that no document shows any more is out of date."""
    commanded = [
        (name_of(document), " ".join(command.arguments))
        for document in WITH_BLOCKS
        for block in blocks(document)
        if not block.language
        for command in commands(block.text)
        if command.program == "fedactive"
    ]
    for line in COMMANDS:
        assert any(why_not([line], *command) for command in commanded), line
    programs = [(name_of(document), block.text) for document in WITH_BLOCKS for block in blocks(document)]
    for line in PROGRAMS:
        assert any(why_not([line], *program) for program in programs), line
