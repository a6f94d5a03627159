"""Datasets made in Python: of whatever gives images and labels, kept by content, found by any process."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fedactive
from fedactive import Dataset, Experiment, Silent
from fedactive.data.loader import find_classes
from fedactive.errors import ConfigurationError, DataError, RunError
from fedactive.sweep.grid import expand
from support.commands import cli
from support.picture_files import drawing


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class LikeTorchvision:
    """A dataset as torchvision has them: a length, and (image, label) by position. It never says that it ends."""

    classes = ("ant", "bee")

    def __init__(self, first: int, count: int) -> None:
        self.first, self.count = first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, k: int) -> tuple[Image.Image, int]:
        return drawing(k % 2, self.first + k), k % 2


def like_hugging_face(first: int, count: int) -> list[dict[str, object]]:
    """Rows as `datasets` gives them."""
    return [{"image": drawing(k % 2, first + k), "label": k % 2} for k in range(count)]


def flowers(count: int = 40, **more: object) -> Dataset:
    train, test = LikeTorchvision(0, count), LikeTorchvision(1000, 20)
    return Dataset.of_samples("my flowers", train, test, classes=train.classes, **more)  # type: ignore[arg-type]


def test_images_of_every_kind_are_the_same_dataset():
    wanted = flowers()
    rows = [like_hugging_face(0, 40), like_hugging_face(1000, 20)]
    arrays = [[(np.asarray(row["image"]), row["label"]) for row in part] for part in rows]
    tensors = [
        (
            torch.from_numpy(np.stack([x for x, _ in part])).permute(0, 3, 1, 2),
            torch.tensor([y for _, y in part]),
        )
        for part in arrays
    ]
    for train, test in (
        [((row["image"], row["label"]) for row in part) for part in rows],
        arrays,
        [zip(x, y, strict=True) for x, y in tensors],
        [zip(x / 255, y, strict=True) for x, y in tensors],  # as torchvision's ToTensor makes them
    ):
        found = Dataset.of_samples("my flowers", train, test, classes=("ant", "bee"))
        assert torch.equal(found.train_inputs, wanted.train_inputs)
        assert torch.equal(found.test_labels, wanted.test_labels)
        assert (found.fingerprint, found.classes) == (wanted.fingerprint, ("ant", "bee"))
    assert wanted.input_shape == (3, 12, 12)
    assert flowers(size=8).input_shape == (3, 8, 8)


def test_it_holds_the_samples_and_is_known_by_them(cache: Path):
    found = flowers(4)
    wanted = [np.asarray(drawing(k % 2, k)).transpose(2, 0, 1) for k in (*range(4), *range(1000, 1020))]
    assert np.array_equal(np.stack(wanted), torch.cat([found.train_inputs, found.test_inputs]))
    labels = [np.arange(count) % 2 for count in (4, 20)]
    content = hashlib.sha256(np.stack(wanted).tobytes())
    content.update(
        b"classes" + np.array(["ant", "bee"]).tobytes() + b"shape" + np.array([3, 12, 12]).tobytes()
    )
    content.update(b"test_labels" + labels[1].tobytes() + b"train_labels" + labels[0].tobytes())
    assert content.hexdigest().startswith(found.origin)
    assert [file.name for file in (cache / "python").iterdir()] == [found.origin]


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        RunError, match=r"cannot write the dataset my flowers to .*: Not a directory; set the"
    ):
        flowers()


def test_samples_need_no_positions():
    """What has a length alone is gone through."""
    pairs = {k: (drawing(k % 2, k), k % 2) for k in range(6)}.values()
    assert Dataset.of_samples("mine", pairs, GOOD).train_labels.tolist() == [0, 1] * 3


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8)])
def test_real_numbers_run_from_black_to_white(shape: tuple[int, ...]):
    tensors = [(torch.full(shape, grey), k % 2) for k, grey in enumerate((0.0, 0.5, 1.0))]
    found = Dataset.of_samples("mine", tensors, tensors)
    assert found.train_inputs[:, 0, 0, 0].tolist() == [0, 128, 255]
    assert found.input_shape == (1, 8, 8)


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match=r"dataset mine: train_labels lack 2, the class c; every class"):
        Dataset.of_samples("mine", GOOD, GOOD, classes=("a", "b", "c"))
    with pytest.raises(DataError, match=r"dataset mine: train_clients are 2 names for 6 training samples"):
        Dataset.of_samples("mine", GOOD, GOOD, clients=("north", "south"))


def test_a_run_says_where_its_data_came_from_and_is_resumed_by_them(small, cache: Path, tmp_path: Path):
    first = fedactive.run(
        small(dataset=flowers(), model="linear", strategy="random", rounds=1, budget="4/client"), Silent()
    )
    text = (first.folder / "experiment.toml").read_text()
    assert 'dataset = "python:my-flowers"' in text
    assert first.folder.name.startswith("my-flowers-random")
    again = Experiment.from_toml(text, runs_dir=tmp_path / "runs", rounds=2)
    done = cli("run", "--config", first.folder / "experiment.toml", "--rounds", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert again.folder == first.folder
    assert len(fedactive.run(again, Silent()).accuracy) == 2
    assert find_classes(again.dataset, again.data_dir, again.dataset_sha256) == ("ant", "bee")
    shutil.rmtree(cache)
    with pytest.raises(
        ConfigurationError, match=r"allowed is one that is still in .*; make it again, of the same"
    ):
        Experiment.from_toml(text)
    assert (
        small(dataset=flowers(), model="linear", strategy="random", rounds=1, budget="4/client").folder
        == first.folder
    )


def test_other_samples_are_another_run(small):
    assert small(dataset=flowers()).hash != small(dataset=flowers(42)).hash
    assert small(dataset=flowers()).hash != small(dataset=flowers(size=8)).hash


def test_a_grid_takes_it(tmp_path: Path):
    grid = expand({"dataset": flowers(), "seed": [1, 2], "runs_dir": tmp_path / "runs"})
    assert [(e.dataset, e.seed) for e in grid] == [("python:my-flowers", 1), ("python:my-flowers", 2)]


def test_given_clients(small):
    e = small(
        dataset=flowers(clients=["north", "south"] * 20), partition="given", clients=2, budget="4/client"
    )
    assert e.clients == 2
    assert fedactive.run(e, Silent()).selections.groupby("client")["sample"].apply(
        lambda s: set(s % 2)
    ).tolist() == [
        {0},
        {1},
    ]


def test_an_array_in_the_place_of_a_dataset_is_refused(digits: Dataset):
    with pytest.raises(ConfigurationError, match=r"allowed is one made by fedactive\.Dataset\.of_samples"):
        Experiment(dataset=digits)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"allowed is one made by fedactive\.Dataset\.of_samples"):
        Experiment(dataset="python:flowers")


GOOD = [(drawing(k % 2, k), k % 2) for k in range(6)]
BAD = {
    "sizes": (
        [*GOOD, (drawing(0, 1, (9, 8)), 0)],
        "sample 6 of train: it is 8x9x3, the first is 12x12x3; size=64",
    ),
    "text": ([("a.png", 0)], "sample 0 of train: it is a str, expected a PIL image, an array or a tensor"),
    "one pixel": (
        [(torch.eye(8)[None] * 1.5, 0)],
        "its pixels are float32, expected uint8, or real numbers from 0",
    ),
    "two channels": (
        [(torch.zeros((2, 8, 8)), 0)],
        r"its shape is \(2, 8, 8\), expected one or three channels",
    ),
    "range": (
        [(torch.full((3, 8, 8), 1.5), 0)],
        "its pixels are float32, expected uint8, or real numbers from 0",
    ),
    "nan": (
        [(torch.full((3, 8, 8), torch.nan), 0)],
        "its pixels are float32, expected uint8, or real numbers",
    ),
    "channels": ([(torch.zeros((4, 8, 8)), 0)], r"its shape is \(4, 8, 8\), expected one or three channels"),
    "tiny": (
        [(torch.zeros((3, 2, 8)), 0)],
        "it is 2x8x3, expected 4 to 1024 pixels in height and width; size=64",
    ),
    "label": ([(drawing(0, 1), "ant")], "sample 0 of train: invalid literal for int"),
    "labels": (
        [(image, label + 3) for image, label in GOOD],
        "train_labels run from 3 to 4, expected 0 to 1",
    ),
    "one class": ([(image, 0) for image, _ in GOOD], "train_labels are all 0, expected two classes or more"),
    "nothing": ([], "train_labels are empty"),
    "no pairs": ([drawing(0, 1)], "sample 0 of train: cannot unpack"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_sentence_and_leaves_nothing(cache: Path, case: str):
    train, sentence = BAD[case]
    with pytest.raises(DataError, match=f"dataset mine: .*{sentence}"):
        Dataset.of_samples("mine", train, GOOD)  # type: ignore[arg-type]
    assert list((cache / "python").iterdir()) == []


def test_grey_images_have_a_place_among_coloured_ones():
    mixed = [(image if k else image.convert("L"), label) for k, (image, label) in enumerate(GOOD[::-1])][::-1]
    assert Dataset.of_samples("mine", mixed, GOOD).input_shape == (3, 12, 12)
    with pytest.raises(DataError, match="it is 12x12x3, the first is 12x12x1"):
        Dataset.of_samples("mine", mixed[::-1], GOOD)
