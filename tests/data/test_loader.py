"""Loading finds the files wherever they may lie; whatever is wrong with them is one sentence naming them."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedactive.data.catalog import DATASETS, MEDMNIST, Layout
from fedactive.data.loader import DataWarning, check, load
from fedactive.errors import ConfigurationError, DataError
from support import builders


def load_unofficial(name: str, data_dir: Path):
    with pytest.warns(DataWarning, match="not the official checksum"):
        return load(name, data_dir)


def make_official(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    """Let the catalogue hold the checksums of the files of the first layout in `folder`."""
    card = DATASETS[name]
    first, *others = card.layouts
    files = tuple(
        replace(file, checksum=builders.checksum((folder / file.name).read_bytes())) for file in first.files
    )
    layout = Layout(files, first.folders, first.read)
    monkeypatch.setitem(DATASETS, name, replace(card, layouts=(layout, *others)))


# Finding and reading -------------------------------------------------------------------------------------


def test_digits_need_no_folder():
    dataset = load("digits", Path("does-not-exist"))
    assert dataset.input_shape == (1, 8, 8)
    assert dataset.train_inputs.dtype == torch.uint8
    assert dataset.train_labels.dtype == torch.int64
    assert len(dataset.train_inputs) + len(dataset.test_inputs) == 1797


@pytest.mark.parametrize("write", [builders.write_cifar10_binary, builders.write_cifar10_python])
def test_cifar10_in_either_form(tmp_path: Path, write):
    pictures, labels = write(tmp_path)
    dataset = load_unofficial("cifar10", tmp_path)
    assert np.array_equal(dataset.train_inputs.numpy(), pictures)
    assert np.array_equal(dataset.train_labels.numpy(), labels)
    assert len(dataset.test_inputs) == 3
    assert dataset.classes[3] == "cat"


def test_cifar10_binary_is_preferred(tmp_path: Path):
    builders.write_cifar10_binary(tmp_path, per_batch=1)
    builders.write_cifar10_python(tmp_path, per_batch=2)
    assert len(load_unofficial("cifar10", tmp_path).train_inputs) == 5


def test_a_complete_copy_is_preferred_to_an_incomplete_one(tmp_path: Path):
    builders.write_cifar10_binary(tmp_path, per_batch=1)
    builders.write_cifar10_python(tmp_path, per_batch=2)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    assert len(load_unofficial("cifar10", tmp_path).train_inputs) == 10


def test_an_official_copy_is_preferred_to_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    builders.write_cifar10_binary(tmp_path, per_batch=1)
    builders.write_cifar10_python(tmp_path, per_batch=2)
    card = DATASETS["cifar10"]
    monkeypatch.setitem(DATASETS, "cifar10", replace(card, layouts=card.layouts[::-1]))
    make_official(monkeypatch, "cifar10", tmp_path / "cifar-10-batches-py")
    official, other = DATASETS["cifar10"].layouts
    monkeypatch.setitem(DATASETS, "cifar10", replace(card, layouts=(other, official)))
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(b"cut off")
    assert len(load("cifar10", tmp_path).train_inputs) == 10
    assert {report.problem for report in check("cifar10", tmp_path)} == {None}


@pytest.mark.parametrize("folder", [".", "svhn"])
def test_svhn_is_contiguous_although_its_file_is_not(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir(exist_ok=True)
    pictures, labels = builders.images(4, 3, 32, 32), builders.labels(4)
    for split in ("train", "test"):
        builders.write_svhn(tmp_path / folder / f"{split}_32x32.mat", pictures, labels)
    dataset = load_unofficial("svhn", tmp_path)
    assert dataset.train_inputs.is_contiguous()
    assert np.array_equal(dataset.train_inputs.numpy(), pictures)
    assert dataset.test_labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", [card.name for card in MEDMNIST if not card.unsupported])
@pytest.mark.parametrize("in_own_folder", [True, False])
def test_every_medmnist(tmp_path: Path, name: str, in_own_folder: bool):
    card = DATASETS[name]
    folder = name if in_own_folder else "."
    (tmp_path / folder).mkdir(exist_ok=True)
    arrays = builders.medmnist_arrays(channels=card.channels, classes=len(card.classes))
    np.savez_compressed(tmp_path / folder / f"{name}.npz", **arrays)
    dataset = load_unofficial(name, tmp_path)
    assert dataset.input_shape == (card.channels, 28, 28)
    assert dataset.train_inputs.is_contiguous()
    assert dataset.mean == (0.5,) * card.channels
    assert (len(dataset.train_inputs), len(dataset.test_inputs)) == (6, 8)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "mnist/raw"),
        ("mnist", "MNIST/raw"),
        ("mnist", ""),
        ("fashion_mnist", "fashion_mnist"),
        ("fashion_mnist", "fashion_mnist/raw"),
        ("fashion_mnist", "FashionMNIST/raw"),
    ],
)
def test_idx_files_are_found_where_others_leave_them(tmp_path: Path, name: str, folder: str, packed: bool):
    data_dir = tmp_path / "data"
    builders.write_idx(data_dir / folder, packed)
    dataset = load_unofficial(name, data_dir)
    assert dataset.input_shape == (1, 28, 28)
    assert dataset.train_labels.tolist() == [0, 1, 2, 3, 4]
    assert len(dataset.test_inputs) == 3


@pytest.mark.parametrize(
    "name", [name for name, card in DATASETS.items() if card.layouts and not card.unsupported]
)
def test_every_dataset_with_files_can_be_missing(tmp_path: Path, name: str):
    with pytest.raises(DataError, match=f"^{name}: .* not found") as caught:
        load(name, tmp_path)
    message = str(caught.value)
    assert f"fedactive data get {name} --data-dir {tmp_path}" in message
    assert "\n" not in message
    for layout in DATASETS[name].layouts:
        assert all(str(tmp_path / folder) in message for folder in layout.folders)
    reports = check(name, tmp_path)
    assert len(reports) == len(DATASETS[name].layouts[0].files)
    assert all(report.checksum == "missing" and report.problem for report in reports)


def test_chestmnist_is_refused_in_one_sentence(tmp_path: Path):
    with pytest.raises(DataError, match=r"chestmnist is multi-label .* not supported"):
        load("chestmnist", tmp_path)


def test_an_unknown_name_meets_the_nearest_one(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="did you mean 'cifar10'"):
        load("cifar-10", tmp_path)


def test_an_incomplete_copy_is_named_by_the_files_it_lacks(tmp_path: Path):
    builders.write_cifar10_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"^cifar10: data_batch_3\.bin not found"):
        load("cifar10", tmp_path)


# Files that are there but wrong --------------------------------------------------------------------------

BAD_ARRAYS = {
    "float images": ("train_images", np.zeros((6, 28, 28, 3)), "train_images are float64, expected uint8"),
    "larger images": (
        "test_images",
        np.zeros((8, 64, 64, 3), np.uint8),
        "test_images are 64x64x3, expected 28x28x3",
    ),
    "grey images": ("train_images", np.zeros((6, 28, 28), np.uint8), "are 28x28x1, expected 28x28x3"),
    "no images": ("train_images", np.zeros((0, 28, 28, 3), np.uint8), "train_images are empty"),
    "one number": ("train_images", np.uint8(3), "train_images are empty"),
    "float labels": ("train_labels", np.zeros((6, 1)), "train_labels are float64, expected integers"),
    "several labels": ("train_labels", np.zeros((6, 14), np.uint8), "expected one label per sample"),
    "high label": (
        "test_labels",
        np.full((8, 1), 7, np.uint8),
        "test_labels run from 7 to 7, expected 0 to 6",
    ),
    "negative label": ("test_labels", np.full((8, 1), -1, np.int64), "run from -1 to -1"),
    "lost label": ("train_labels", np.zeros((5, 1), np.uint8), "6 train images but 5 train labels"),
    "text": ("train_labels", np.array(["a"] * 6), "expected integers"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays_that_do_not_fit_the_dataset(tmp_path: Path, case: str):
    role, array, reason = BAD_ARRAYS[case]
    np.savez(tmp_path / "dermamnist.npz", **{**builders.medmnist_arrays(), role: array})
    with pytest.raises(DataError, match=rf"dermamnist\.npz: .*{reason}"):
        load("dermamnist", tmp_path)
    (report,) = check("dermamnist", tmp_path)
    assert report.checksum == "different"
    assert report.problem
    assert "dermamnist.npz" not in report.problem


def test_counts_that_differ_between_files(tmp_path: Path):
    builders.write_idx(tmp_path / "mnist", packed=False)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(builders.idx_bytes(builders.labels(2)))
    with pytest.raises(DataError, match="3 test images but 2 test labels"):
        load("mnist", tmp_path)
    reports = check("mnist", tmp_path)
    assert len(reports) == 4
    assert all(report.problem and "3 test images" in report.problem for report in reports)


def test_a_folder_in_place_of_a_file_is_a_missing_file(tmp_path: Path):
    (tmp_path / "octmnist.npz").mkdir()
    with pytest.raises(DataError, match=r"octmnist\.npz not found"):
        load("octmnist", tmp_path)


def write_one_of_each(data_dir: Path) -> dict[str, Path]:
    """One dataset of every format; the file of each that a test may damage."""
    builders.write_cifar10_binary(data_dir / "binary", per_batch=1)
    builders.write_cifar10_python(data_dir / "python", per_batch=1)
    builders.write_idx(data_dir / "mnist", packed=True)
    for split in ("train", "test"):
        builders.write_svhn(
            data_dir / f"{split}_32x32.mat", builders.images(2, 3, 32, 32), builders.labels(2)
        )
    np.savez_compressed(data_dir / "dermamnist.npz", **builders.medmnist_arrays(2))
    return {
        "binary/cifar10": data_dir / "binary/cifar-10-batches-bin/data_batch_2.bin",
        "python/cifar10": data_dir / "python/cifar-10-batches-py/data_batch_2",
        "mnist": data_dir / "mnist/train-images-idx3-ubyte.gz",
        "svhn": data_dir / "train_32x32.mat",
        "dermamnist": data_dir / "dermamnist.npz",
    }


@pytest.mark.parametrize("which", ["binary/cifar10", "python/cifar10", "mnist", "svhn", "dermamnist"])
def test_damage_of_any_kind_is_a_sentence_that_names_the_file(tmp_path: Path, which: str):
    path = write_one_of_each(tmp_path)[which]
    folder, _, name = which.rpartition("/")
    whole = path.read_bytes()
    chance = random.Random(which)
    cuts = [whole[: chance.randrange(len(whole))] for _ in range(15)]
    flips = []
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            # The headers are where a flipped bit can mislead a parser most.
            damaged[chance.randrange(min(len(whole), chance.choice([200, len(whole)])))] ^= (
                1 << chance.randrange(8)
            )
        flips.append(bytes(damaged))
    errors = []
    for content in [b"", b"nonsense", *cuts, *flips]:
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(name, tmp_path / folder)
        except DataError as error:
            errors.append(str(error))
    assert len(errors) >= 15
    assert all(error.startswith(f"{path}: ") and "\n" not in error for error in errors)


# Checksums -----------------------------------------------------------------------------------------------


def test_official_files_load_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    builders.write_idx(tmp_path / "mnist", packed=True)
    make_official(monkeypatch, "mnist", tmp_path / "mnist")
    load("mnist", tmp_path)
    assert {report.checksum for report in check("mnist", tmp_path)} == {"official"}


def test_the_warning_names_the_files_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    builders.write_idx(tmp_path / "mnist", packed=True)
    make_official(monkeypatch, "mnist", tmp_path / "mnist")
    name = "t10k-labels-idx1-ubyte.gz"
    (tmp_path / "mnist" / name).write_bytes((tmp_path / "mnist" / name).read_bytes() + b"\0")
    with pytest.warns(DataWarning, match=rf"well: {name} in .*mnist$") as caught:
        load("mnist", tmp_path)
    assert caught[0].filename == __file__  # it points to the line that loads
    assert [report.checksum for report in check("mnist", tmp_path)] == ["official"] * 3 + ["different"]


def test_an_unchanged_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    np.savez(tmp_path / "dermamnist.npz", **builders.medmnist_arrays())
    hashed = []
    file_digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: hashed.append(1) or file_digest(*given))
    load_unofficial("dermamnist", tmp_path)
    load_unofficial("dermamnist", tmp_path)
    assert len(hashed) == 1
    np.savez(tmp_path / "dermamnist.npz", **builders.medmnist_arrays(count=7))
    load_unofficial("dermamnist", tmp_path)
    assert len(hashed) == 2


def test_check_of_digits_finds_no_files(tmp_path: Path):
    assert check("digits", tmp_path) == []


def test_the_package_imports_without_pooch_and_before_the_slow_libraries():
    code = (
        "import sys; sys.modules['pooch'] = None; from fedactive.data.downloader import download; from fedactive.data.loader import load;"
        "print([name for name in ('scipy.io', 'scipy.stats') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
