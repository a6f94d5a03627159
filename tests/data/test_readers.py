"""Each reader gives back the arrays that were written, and refuses what is not in its format."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from fedactive.data.readers import cifar10, digits, idx, medmnist, svhn
from fedactive.errors import DataError
from support import builders


def test_digits_are_whole_and_split_at_every_fifth():
    parts = digits.read()
    assert parts["train_images"].shape == (1438, 1, 8, 8)
    assert parts["test_images"].shape == (359, 1, 8, 8)
    assert parts["train_images"].dtype == np.uint8
    assert parts["train_images"].max() == 255
    # The first ten digits of the dataset are 0 to 9, so the first two test samples are a 4 and a 9.
    assert parts["train_labels"][:8].tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert parts["test_labels"][:2].tolist() == [4, 9]


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    theirs, ours = load_digits(), digits.read()
    train = np.arange(len(theirs.target)) % 5 != 4
    assert np.array_equal(ours["train_images"][:, 0], np.round(theirs.images[train] * 255 / 16))
    assert np.array_equal(ours["train_labels"], theirs.target[train])
    assert np.array_equal(ours["test_images"][:, 0], np.round(theirs.images[~train] * 255 / 16))
    assert np.array_equal(ours["test_labels"], theirs.target[~train])


@pytest.mark.parametrize("split", ["train", "test"])
def test_cifar10_binary_records(tmp_path: Path, split: str):
    pictures, labels = builders.images(4, 3, 32, 32), builders.labels(4)
    path = tmp_path / ("test_batch.bin" if split == "test" else "data_batch_1.bin")
    path.write_bytes(builders.cifar10_record_bytes(pictures, labels))
    parts = cifar10.read_binary(path)
    assert np.array_equal(parts[f"{split}_images"], pictures)
    assert np.array_equal(parts[f"{split}_labels"], labels)


def test_cifar10_binary_cut_short_is_named(tmp_path: Path):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(bytes(3073 * 2 - 1))
    with pytest.raises(DataError, match=r"data_batch_1\.bin: 6145 bytes .* truncated"):
        cifar10.read_binary(path)


def test_cifar10_pickle_of_python_2(tmp_path: Path):
    pictures, labels = builders.images(4, 3, 32, 32), builders.labels(4)
    path = tmp_path / "data_batch_1"
    path.write_bytes(builders.python2_pickle(pictures, labels))
    parts = cifar10.read_pickle(path)
    assert np.array_equal(parts["train_images"], pictures)
    assert np.array_equal(parts["train_labels"], labels)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_cifar10_pickle_of_python_3(tmp_path: Path, protocol: int):
    pictures, labels = builders.images(4, 3, 32, 32), builders.labels(4)
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({"data": pictures.reshape(4, -1), "labels": labels.tolist()}, protocol))
    assert np.array_equal(cifar10.read_pickle(path)["test_images"], pictures)


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("kind", ["<i8", ">i4", "u1"])
def test_cifar10_pickle_with_labels_in_an_array(tmp_path: Path, kind: str, protocol: int):
    path = tmp_path / "test_batch"
    content = {
        "data": np.asfortranarray(np.zeros((4, 3072), np.uint8)),
        "labels": np.array([3, 1, 2, 9], kind),
    }
    path.write_bytes(pickle.dumps(content, protocol))
    assert cifar10.read_pickle(path)["test_labels"].tolist() == [3, 1, 2, 9]


class _Program:
    """Pickles into a call of os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_pickle_that_runs_a_program_is_refused_by_name_and_does_not_run(tmp_path: Path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": _Program(f"touch {tmp_path}/ran"), "labels": []}))
    with pytest.raises(DataError, match=r"data_batch_1: .* calls (posix|nt)\.system, which is refused"):
        cifar10.read_pickle(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", [b"builtins\neval", b"builtins\ngetattr", b"numpy\nload", b"numpy.core\nmultiarray"]
)
def test_a_pickle_may_name_nothing_but_arrays(tmp_path: Path, name: bytes):
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"c" + name + b"\n.")
    with pytest.raises(DataError, match="refused"):
        cifar10.read_pickle(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([1, 2], "no dictionary"),
        ({"data": np.zeros((2, 3072), np.uint8)}, "'labels'"),
        ({"data": np.zeros((2, 100), np.uint8), "labels": [0, 1]}, r"shape \(2, 100\)"),
        ({"data": np.zeros((2, 3072)), "labels": [0, 1]}, "array of type <f8"),
        ({"data": np.array([[None]]), "labels": [0]}, r"array of type \|O"),
    ],
)
def test_a_pickle_that_is_not_a_batch(tmp_path: Path, content: object, reason: str):
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=reason):
        cifar10.read_pickle(path)


def test_a_pickle_with_an_array_that_was_never_filled(tmp_path: Path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"(dS'data'\ncnumpy.core.multiarray\n_reconstruct\n(tRsS'labels'\n(ls.")
    with pytest.raises(DataError, match=r"'data' has the shape \(0,\), expected \(N, 3072\)"):
        cifar10.read_pickle(path)


def test_svhn_turns_images_round_and_ten_into_zero(tmp_path: Path):
    pictures, labels = builders.images(11, 3, 32, 32), builders.labels(11)
    builders.write_svhn(tmp_path / "train_32x32.mat", pictures, labels)
    parts = svhn.read(tmp_path / "train_32x32.mat")
    assert np.array_equal(parts["train_images"], pictures)
    assert np.array_equal(parts["train_labels"], labels)


def test_svhn_without_labels(tmp_path: Path):
    path = tmp_path / "test_32x32.mat"
    scipy.io.savemat(path, {"X": builders.images(2, 3, 32, 32).T})
    with pytest.raises(DataError, match=r"test_32x32\.mat: the variable y is missing"):
        svhn.read(path)


def test_svhn_in_another_shape_is_left_to_the_checks(tmp_path: Path):
    path = tmp_path / "test_32x32.mat"
    scipy.io.savemat(path, {"X": builders.images(2, 3), "y": [[1], [2]]})
    assert svhn.read(path)["test_images"].shape == (2, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_medmnist_reads_train_and_test_only(tmp_path: Path, channels: int):
    arrays = builders.medmnist_arrays(channels=channels)
    np.savez(tmp_path / "some.npz", **arrays)
    parts = medmnist.read(tmp_path / "some.npz")
    assert set(parts) == {"train_images", "train_labels", "test_images", "test_labels"}
    assert parts["train_images"].shape == (6, channels, 28, 28)
    assert np.array_equal(
        parts["test_images"][5, -1], arrays["test_images"].reshape(8, 28, 28, -1)[5, :, :, -1]
    )
    assert np.array_equal(parts["test_labels"], arrays["test_labels"][:, 0])


def test_medmnist_never_unpickles(tmp_path: Path):
    arrays = builders.medmnist_arrays()
    arrays["train_labels"] = np.array([_Program(f"touch {tmp_path}/ran")], dtype=object)
    np.savez(tmp_path / "some.npz", **arrays)
    with pytest.raises(DataError, match=r"the array train_labels cannot be read \(.*allow_pickle"):
        medmnist.read(tmp_path / "some.npz")
    assert not (tmp_path / "ran").exists()


def test_medmnist_that_is_a_bare_array(tmp_path: Path):
    path = tmp_path / "some.npz"
    with path.open("wb") as file:
        np.save(file, builders.images(2, 28, 28))
    with pytest.raises(DataError, match=r"some\.npz: not an \.npz archive"):
        medmnist.read(path)


def test_medmnist_without_a_split(tmp_path: Path):
    arrays = builders.medmnist_arrays()
    del arrays["test_labels"]
    np.savez(tmp_path / "some.npz", **arrays)
    with pytest.raises(DataError, match=r"some\.npz: the array test_labels is missing"):
        medmnist.read(tmp_path / "some.npz")


@pytest.mark.parametrize("packed", [True, False])
def test_idx(tmp_path: Path, packed: bool):
    pictures = builders.images(3, 28, 28)
    content = builders.idx_bytes(pictures)
    path = tmp_path / ("train-images-idx3-ubyte" + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(content) if packed else content)
    assert np.array_equal(idx.read(path)["train_images"], pictures[:, np.newaxis])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an idx file"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "not an idx file"),  # type code of 32-bit floats
        (b"\x00\x00\x08\x00", "1 values are announced but 0 follow"),  # no dimension, and no value
        (b"\x00\x00\x08\x03\x00\x00", "header is truncated"),
        (builders.idx_bytes(builders.labels(7))[:-2], "7 values are announced but 5 follow"),
        (builders.idx_bytes(builders.labels(7)) + b"\x00", "7 values are announced but 8 follow"),
    ],
)
def test_idx_of_the_wrong_length_or_type(tmp_path: Path, content: bytes, reason: str):
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason):
        idx.read(path)


def test_idx_without_any_label_is_left_to_the_checks(tmp_path: Path):
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(builders.idx_bytes(builders.labels(0)))
    assert idx.read(path)["test_labels"].shape == (0,)
