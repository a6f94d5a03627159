"""A file of the user's own in place of a dataset's name: read, checked, named, and known by its content."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fedactive.data.catalog import DATASETS
from fedactive.data.loader import check, find_classes, load
from fedactive.data.own_data import find_own
from fedactive.data.own_file import DIGITS, is_own_file, short_digest, short_name
from fedactive.data.own_images import mean_and_std
from fedactive.errors import ConfigurationError, DataError
from support import builders

NOWHERE = Path("nowhere")


def write(path: Path, **changes: object) -> Path:
    """Colour images of 28x28, seven classes; None leaves an array out."""
    arrays = {**builders.medmnist_arrays(count=14), **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
    return path


def test_it_is_a_dataset_like_any_other(tmp_path: Path):
    path = write(tmp_path / "mine.npz")
    arrays = builders.medmnist_arrays(count=14)
    data = load(str(path), NOWHERE)
    assert (data.name, data.input_shape) == ("mine", (3, 28, 28))
    assert data.classes == ("0", "1", "2", "3", "4", "5", "6")
    assert np.array_equal(data.train_inputs.permute(0, 2, 3, 1).numpy(), arrays["train_images"])
    assert data.train_labels.tolist() == arrays["train_labels"][:, 0].tolist()
    assert len(data.test_inputs) == 16
    assert data.train_inputs.is_contiguous()
    assert find_own(str(path), NOWHERE).digest == hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


@pytest.mark.parametrize("shape", [(9, 12), (9, 12, 1), (9, 12, 3)])
def test_grey_or_colour_and_not_only_squares(tmp_path: Path, shape: tuple[int, ...]):
    images = {f"{split}_images": builders.images(10, *shape) for split in ("train", "test")}
    labels = {f"{split}_labels": builders.labels(10, 2) for split in ("train", "test")}
    np.savez(tmp_path / "mine.npz", **images, **labels)  # no validation split either, and labels (n,)
    data = load(str(tmp_path / "mine.npz"), NOWHERE)
    assert data.input_shape == (shape[2] if len(shape) == 3 else 1, 9, 12)
    assert len(data.mean) == len(data.std) == data.input_shape[0]


def test_classes_may_have_names(tmp_path: Path):
    names = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu"])
    path = write(tmp_path / "mine.npz", classes=names)
    assert load(str(path), NOWHERE).classes == tuple(names)
    assert find_classes(str(path), NOWHERE) == tuple(names)
    assert find_classes("digits", NOWHERE) == DATASETS["digits"].classes


def test_two_names_are_enough(tmp_path: Path):
    labels = {f"{split}_labels": builders.labels(n, 2) for split, n in (("train", 14), ("test", 16))}
    path = write(tmp_path / "mine.npz", classes=np.array(["no", "yes"]), **labels)
    assert load(str(path), NOWHERE).classes == ("no", "yes")


def test_pixels_are_normalised_by_their_own_mean_and_deviation():
    images = builders.images(50, 3, 8, 8)
    images[:, 2] = 7  # a channel of one value must not be divided by 0
    mean, std = mean_and_std(images)
    scaled = torch.from_numpy(images).double() / 255
    assert torch.allclose(torch.tensor(mean).double(), scaled.mean((0, 2, 3)))
    expected = scaled.std((0, 2, 3), correction=0)[:2]
    assert torch.allclose(torch.tensor(std[:2]).double(), expected)
    assert std[2] == 1 / 255


BAD = {
    "no array": ({"test_labels": None}, "the array test_labels is missing"),
    "floats": ({"train_images": np.zeros((14, 28, 28, 3))}, "train_images are float64, expected uint8"),
    "float labels": ({"train_labels": np.zeros(14)}, "train_labels are float64, expected integers"),
    "ragged": (
        {"train_images": np.array([np.zeros((2, 2)), np.zeros((3, 3))], dtype=object)},
        "the array train_images cannot be read",
    ),
    "channels first": (
        {"train_images": np.zeros((14, 3, 28, 28), np.uint8)},
        r"train_images are 3x28x28, expected \(n, height, width\) or \(n, height, width, 3\)",
    ),
    "flat": ({"train_images": np.zeros((14, 784), np.uint8)}, "train_images are 784x1, expected"),
    "one number": ({"train_images": np.uint8(3)}, "train_images are"),
    "tiny": (
        {"train_images": np.zeros((14, 3, 3), np.uint8)},
        "train_images are 3x3x1, expected 4 to 1024 pixels",
    ),
    "low": ({"train_images": np.zeros((14, 3, 28), np.uint8)}, "train_images are 3x28x1, expected 4 to 1024"),
    "narrow": ({"train_images": np.zeros((14, 28, 3), np.uint8)}, "train_images are 28x3x1, expected 4 to"),
    "sizes differ": (
        {"test_images": np.zeros((16, 32, 32, 3), np.uint8)},
        "test_images are 32x32x3, expected 28x28x3",
    ),
    "colours differ": (
        {"test_images": np.zeros((16, 28, 28), np.uint8)},
        "test_images are 28x28x1, expected 28x28x3",
    ),
    "counts differ": ({"train_labels": builders.labels(13, 7)}, "14 train images but 13 train labels"),
    "empty": ({"test_images": np.zeros((0, 28, 28, 3), np.uint8)}, "test_images are empty"),
    "one class": (
        {"train_labels": np.zeros(14, int)},
        "train_labels are all 0, expected two classes or more",
    ),
    "from one": (
        {"train_labels": 1 + builders.labels(14, 7)},
        "train_labels run from 1 to 7, expected 0 to 6",
    ),
    "huge": ({"train_labels": 10**12 * builders.labels(14, 7)}, "train_labels run from 0 to 6000000000000"),
    "unknown to training": (
        {"test_labels": builders.labels(16, 8)},
        "test_labels run from 0 to 7, expected 0 to 6",
    ),
    "several labels": ({"train_labels": np.zeros((14, 3), int)}, "train_labels have the shape"),
    "no images of a class": ({"classes": np.array([*"abcdefgh"])}, "train_labels lack 7, the class h"),
    "too few names": ({"classes": np.array([*"abc"])}, "train_labels run from 0 to 6, expected 0 to 2"),
    "a name twice": (
        {"classes": np.array([*"abcdefa"])},
        "classes are 7 names, 6 of them different, expected two or more",
    ),
    "numbers for names": ({"classes": np.arange(7)}, r"classes are int64 \(7,\), expected a list of names"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_sentence_with_file_and_array(tmp_path: Path, case: str):
    changes, reason = BAD[case]
    path = write(tmp_path / "mine.npz", **changes)
    with pytest.raises(DataError, match=rf"^{path}: {reason}") as caught:
        load(str(path), NOWHERE)
    assert "\n" not in str(caught.value)
    (report,) = check(str(path), NOWHERE)
    assert report.problem
    assert str(path) not in report.problem


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04nonsense"])
def test_what_is_no_npz_file(tmp_path: Path, content: bytes):
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^{path}: "):
        load(str(path), NOWHERE)


def test_check_says_what_is_in_it(tmp_path: Path):
    (report,) = check(str(write(tmp_path / "mine.npz")), NOWHERE)
    assert report.problem is None
    assert report.remark == ", 14 training and 16 test images of 28x28x3, 7 classes"


def test_a_file_that_is_not_there(tmp_path: Path):
    (tmp_path / "folder.npz").mkdir()
    for name in ("mine.npz", "folder.npz"):
        with pytest.raises(
            ConfigurationError, match=rf"{name}' was given, allowed is the path of an \.npz file"
        ):
            load(str(tmp_path / name), NOWHERE)


def test_a_file_that_cannot_be_read(tmp_path: Path):
    path = tmp_path / "mine.npz"
    path.symlink_to("/proc/self/mem")  # which has nothing at its beginning, even for root
    with pytest.raises(DataError, match=r"mine\.npz: cannot be read: Input/output error"):
        short_digest(path)


# Which file it is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("cifar10", "cifar10"),
        ("cifar-10", "cifar-10"),  # no dataset, and no file either
        ("mine.npz", "mine"),
        ("/some/where/Skin lesions (v1.2).npz", "Skin-lesions-v1-2"),
        ("../digits.NPZ", "digits"),
        ("ünï.npz", "n"),
        ("数据.npz", "data"),
        (f"{'x' * 200}.npz", "x" * 60),
    ],
)
def test_runs_are_named_by_the_stem(dataset: str, name: str):
    assert short_name(dataset) == name
    assert is_own_file(dataset) == (dataset != name)


def test_content_decides_and_not_the_place(tmp_path: Path):
    path = write(tmp_path / "mine.npz")
    content = short_digest(path)
    assert content == hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    elsewhere = tmp_path / "data"
    elsewhere.mkdir()
    shutil.move(path, elsewhere)
    assert load(str(path), elsewhere, content).name == "mine"  # moved
    with pytest.raises(ConfigurationError, match=r"that exists$"):
        load(str(path), elsewhere)  # which file is meant is not known: only its name is the same
    with pytest.raises(ConfigurationError, match=r"that exists, or the name of one in nowhere$"):
        load(str(path), NOWHERE, content)
    write(path, train_images=builders.images(14, 28, 28, 3, seed=5))
    assert short_digest(path) != content
    assert torch.equal(
        load(str(path), elsewhere, content).train_inputs,
        load(str(elsewhere / "mine.npz"), NOWHERE).train_inputs,
    )
    with pytest.raises(DataError, match=rf"mine\.npz: not the same file: its SHA-256 .*expected {content}"):
        load(str(path), NOWHERE, content)
