"""The examples of docs/DATASETS.md: what readers copy works, and does what is said there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import cli
from support.documents import DOCS, python_block
from support.picture_files import write_folder, write_split

TEXT = (DOCS / "DATASETS.md").read_text(encoding="utf-8")
QUICK = "--clients 2 --rounds 1 --fl-rounds 1 --local-epochs 1 --budget 3/client --model mlp --device cpu --workers 1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "cache"))


def command(beginning: str) -> list[str]:
    """Find the command of the document that begins so."""
    return re.findall(rf"^fedactive ({re.escape(beginning)}.*)$", TEXT, re.MULTILINE)[0].split()


def test_a_folder_is_checked_and_learnt(tmp_path: Path):
    write_split(tmp_path / "path" / "to" / "flowers")
    done = cli(*command("data check path/to/flowers"), cwd=tmp_path)
    assert done.stdout == (
        "path/to/flowers: can be read, 16 training and 16 test images of 12x12 in colour, 2 classes\n"
    ), done.stderr
    done = cli(
        *command("run --dataset path/to/flowers --image-size 64 --augment"), *QUICK.split(), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_the_table_is_read_as_it_stands_there(tmp_path: Path):
    table = re.findall(r"```csv\n(.*?)```", TEXT, re.DOTALL)[0]
    folder = write_folder(tmp_path / "path" / "to", "ant", each=3)
    (folder / "ant").rename(folder / "scans")
    for k in range(3):
        (folder / "scans" / f"{1000 + k}.png").rename(folder / "scans" / f"{k + 1:04}.png")
    (folder / "images.csv").write_text(table)
    words = [*command("run --dataset path/to/images.csv"), "--partition", "given", *QUICK.split()]
    done = cli(*words, "--strategy", "random", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (report,) = cli("data", "check", "path/to/images.csv", cwd=tmp_path).stdout.splitlines()
    assert report.endswith("2 training and 1 test images of 12x12 in colour, 2 classes, 2 clients")


def test_arrays_become_a_dataset(tmp_path: Path):
    program = python_block("DATASETS.md", "load_digits") + "\nprint(result.accuracy[2])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.3


def test_an_augmentation_of_ones_own_is_one_file(tmp_path: Path):
    (tmp_path / "my_augmentation.py").write_text(python_block("DATASETS.md", "class Darken"))
    done = cli(
        *command("run --dataset digits --plugin"), "--strategy", "random", *QUICK.split(), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "darkens images" in cli("augmentations", "--plugin", "my_augmentation.py", cwd=tmp_path).stdout
