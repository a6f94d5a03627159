"""The catalogue agrees with itself, whatever dataset is added to it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import fedactive.data
from fedactive.cli.app import app
from fedactive.data.catalog import DATASETS, DatasetCard

CARDS = pytest.mark.parametrize("card", DATASETS.values(), ids=DATASETS.keys())


def test_every_dataset_of_the_paper_and_every_2d_medmnist_is_there():
    assert {"cifar10", "svhn", "pathmnist", "organamnist", "dermamnist", "mnist", "fashion_mnist"} <= set(
        DATASETS
    )
    assert sum(name.endswith("mnist") for name in DATASETS) == 12 + 2


def test_the_paper_labels_cifar10_further_than_the_others():
    assert {name: card.label_until for name, card in DATASETS.items() if card.label_until != 60} == {
        "cifar10": 80
    }


@CARDS
def test_a_card_is_complete(card: DatasetCard):
    assert DATASETS[card.name] is card
    assert card.description
    assert card.licence
    assert len(card.mean) == len(card.std) == card.channels
    assert len(card.classes) == len(set(card.classes)) >= 2
    assert bool(card.layouts) != (card.built_in is not None)


def test_nothing_else_can_be_imported_from_the_package():
    assert not hasattr(fedactive.data, "nonsense")


COLOUR = {"cifar10", "svhn", "pathmnist", "dermamnist", "retinamnist", "bloodmnist"}
SIDES = {"digits": 8, "cifar10": 32, "svhn": 32}  # all others have 28 pixels
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # with which the paper normalises CIFAR-10
NORMALISATION = {  # all others by 0.5 and 0.5
    "cifar10": IMAGENET,
    "svhn": ((0.4376821, 0.4437697, 0.47280442), (0.19803012, 0.20101562, 0.19703614)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
}


@CARDS
def test_images_and_their_normalisation_are_as_published(card: DatasetCard):
    channels = 3 if card.name in COLOUR else 1
    assert (card.channels, card.size) == (channels, SIDES.get(card.name, 28))
    halves = (0.5,) * channels
    assert (card.mean, card.std) == NORMALISATION.get(card.name, (halves, halves))


def test_a_card_is_told_as_before_there_were_windows():
    """Sites compare it with what an earlier version kept."""
    card = replace(DATASETS["digits"], window=(40.0, 400.0))
    assert repr(card) == repr(DATASETS["digits"])


@CARDS
def test_every_official_file_has_a_well_formed_checksum(card: DatasetCard):
    files = [file for layout in card.layouts for file in layout.files]
    for file in [*files, *([card.archive] if card.archive else [])]:
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", file.checksum)


@CARDS
def test_what_is_downloaded_has_an_address(card: DatasetCard):
    if card.layouts:
        sources = [card.archive] if card.archive else card.layouts[0].files
        for source in sources:
            assert re.fullmatch(rf"https?://.*/{re.escape(source.name)}(\?download=1)?", source.url)


def test_licences_are_told_and_in_the_list_those_that_forbid_commercial_use():
    terminal = CliRunner(env={"COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1"})
    got = terminal.invoke(app, ["data", "get", "digits"])
    assert got.output.splitlines()[-1] == f"licence: {DATASETS['digits'].licence}"
    lines = terminal.invoke(app, ["datasets"]).output.splitlines()
    marked = {line.split()[1]: line for line in lines if "commercial" in line or "-NC" in line}
    assert set(marked) == {"svhn", "dermamnist"}
    assert all(f"[{DATASETS[name].licence}]" in line for name, line in marked.items())
