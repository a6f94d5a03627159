"""The catalogue agrees with itself, whatever dataset is added to it."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from fedactive.cli.app import app
from fedactive.data import DATASETS
from fedactive.data.catalog import DatasetCard

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


@CARDS
def test_every_official_file_has_a_well_formed_checksum(card: DatasetCard):
    files = [file for layout in card.layouts for file in layout.files]
    for file in [*files, *([card.archive] if card.archive else [])]:
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", file.checksum)


@CARDS
def test_what_is_downloaded_has_an_address(card: DatasetCard):
    if card.layouts:
        sources = [card.archive] if card.archive else card.layouts[0].files
        assert all(source and source.url.startswith(("https://", "http://")) for source in sources)


def test_licences_are_told_and_in_the_list_those_that_forbid_commercial_use():
    terminal = CliRunner(env={"COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1"})
    got = terminal.invoke(app, ["data", "get", "digits"])
    assert got.output.splitlines()[-1] == f"licence: {DATASETS['digits'].licence}"
    lines = terminal.invoke(app, ["datasets"]).output.splitlines()
    marked = {line.split()[1]: line for line in lines if "commercial" in line or "-NC" in line}
    assert set(marked) == {"svhn", "dermamnist"}
    assert all(f"[{DATASETS[name].licence}]" in line for name, line in marked.items())
