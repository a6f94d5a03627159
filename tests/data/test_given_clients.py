"""Clients that a file brings along."""

import numpy as np
import pytest

from fedactive.data.loader import check, load
from fedactive.data.partition.given import given, read_clients
from fedactive.errors import ConfigurationError, DataError
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from support.commands import cli

HOSPITALS = np.array(["north", "south", "west"])


@pytest.fixture
def write(digits, tmp_path):
    """Digits of three hospitals, of very different sizes; `changes` replace what the file says of them."""

    def make(**changes):
        owners = HOSPITALS[np.random.default_rng(0).choice(3, len(digits.train_labels), p=[0.8, 0.19, 0.01])]
        arrays = {"train_images": digits.train_inputs[:, 0], "train_labels": digits.train_labels}
        arrays |= {"test_images": digits.test_inputs[:, 0], "test_labels": digits.test_labels}
        np.savez(tmp_path / "hospitals.npz", **arrays | {"train_clients": owners} | changes)
        return tmp_path / "hospitals.npz"

    return make


def test_each_client_labels_its_own_samples(small, write):
    file = write()
    names, owners = read_clients(file)
    assert names == ("north", "south", "west")
    e = small(dataset=file, partition="given", strategy="entropy", budget="9/client")
    assert e.clients == 3
    chosen = run(e, Silent()).selections
    assert (owners[chosen["sample"]] == chosen["client"]).all()
    west = int((owners == 2).sum())
    assert chosen.groupby("client").size().tolist() == [27, 27, west]  # it has no more than that
    assert west < 27


def test_samples_are_dealt_as_they_are_numbered():
    assert [own.tolist() for own in given(np.array([0, 2, 0]))] == [[0, 2], [], [1]]


def test_whole_numbers_are_names_too(write, tmp_path):
    file = write(train_clients=np.arange(1438) % 4 * 10)
    assert read_clients(file)[0] == ("0", "10", "20", "30")
    assert load(str(file), tmp_path).train_clients.bincount().tolist() == [360, 360, 359, 359]
    assert check(str(file), tmp_path)[0].content.endswith("10 classes, 4 clients")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clients": 5}, "clients: 5 was given, allowed is 3, as"),
        ({"alpha": 1.0}, "alpha: 1.0 was given, allowed is 0.1, the default: partition given deals nothing"),
        ({"rho": 20.0}, "rho: 20.0 was given, allowed is 1, the default"),
    ],
)
def test_what_the_data_say_is_not_asked_for_again(small, write, wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        small(**{"dataset": write(), "partition": "given", "clients": 3} | wrong)


def test_data_without_clients_say_so(small):
    with pytest.raises(ConfigurationError, match="digits does not say who has which sample"):
        small(partition="given")


def test_names_of_no_samples(tmp_path):
    for labels in ({}, {"train_labels": np.array(1)}):
        np.savez(tmp_path / "a.npz", train_clients=np.array(["a", "b"]), **labels)
        with pytest.raises(DataError, match=r"train_labels is missing|2 names for 1 training samples"):
            read_clients(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        (np.ones(1438), r"train_clients are float64 \(1438,\), expected a name for each sample"),
        (np.arange(3), "train_clients are 3 names for 1438 training samples, expected one for each"),
        (np.where(np.arange(1438) == 7, "", "a"), "train_clients lack a name, in row 7"),
    ],
)
def test_names_that_cannot_be(write, tmp_path, clients, message):
    with pytest.raises(DataError, match=message):
        load(str(write(train_clients=clients)), tmp_path)


def test_embedded_images_keep_their_clients(write, tmp_path):
    network = tmp_path / "network.py"
    network.write_text(PLUGIN)
    words = ["--dataset", write(), "--backbone", "pixels", "--plugin", network, "-o", tmp_path / "out.npz"]
    done = cli("embed", *words, "--image-size", 8, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    one, other = (read_clients(tmp_path / name)[1] for name in ("hospitals.npz", "out.npz"))
    assert np.array_equal(one, other)


PLUGIN = """
from dataclasses import dataclass
from pathlib import Path
from fedactive.backbones import Backbone, register

@register
@dataclass(frozen=True)
class Pixels(Backbone):
    name = "pixels"
    summary = "the pixels themselves"
    paper = "-"

    def files(self):
        return [Path(__file__)]

    def load(self, device):
        return lambda images: images.flatten(1)
"""
