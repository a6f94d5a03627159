"""Runs on image files, from the folder to the report and the exported model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedactive
from fedactive import Silent
from fedactive.analysis.report import write_report
from fedactive.data.loader import load
from fedactive.data.own_data import find_own
from fedactive.data.pixel_map import file_of
from fedactive.engines.parallel import open_file_of
from fedactive.errors import ConfigurationError
from fedactive.export.write import write_model
from fedactive.laboratory.inputs import load_inputs
from fedactive.progress import Callback
from support.networks import write_onnx
from support.picture_files import write_folder, write_split


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hospitals(tmp_path: Path) -> Path:
    """Images of several sizes, of two hospitals."""
    folder = write_folder(tmp_path / "hospitals", "clients/north/ant", "clients/north/bee", each=10)
    write_folder(folder, "clients/south/bee", "clients/south/ant", each=12, size=(16, 14))
    return write_folder(folder, "test/ant", "test/bee", each=6)


def test_hospitals_learn_together_and_the_model_goes_out_again(hospitals: Path, small, tmp_path: Path):
    few = {"partition": "given", "clients": 2, "budget": "4/client", "strategy": "random", "rounds": 1}
    e = small(dataset=hospitals, image_size=12, fl_rounds=1, augment="crop", **few)
    result = fedactive.run(e, Silent())
    owners = find_own(str(hospitals), tmp_path).clients[1]
    chosen = result.selections
    assert (owners[chosen["sample"]] == chosen["client"]).all()
    page = tmp_path / "report.html"
    write_report([result.folder], page)
    assert "data:image/png" in page.read_text()
    write_model(result.folder, tmp_path / "model.pt", Silent())
    model = fedactive.load_model(tmp_path / "model.pt", device="cpu")
    files = [hospitals / "test" / "ant" / f"{k}.png" for k in (1000, 1001, 1002)]
    trained = load(*e.source).test_inputs[:3].permute(0, 2, 3, 1).numpy()  # what files become in training
    found = [model.predict(given)[["p(ant)", "p(bee)"]].to_numpy() for given in (files, trained)]
    assert np.allclose(*found, atol=1e-6)


def test_images_of_many_sizes_want_a_size_or_a_backbone(hospitals: Path, small, tmp_path: Path):
    with pytest.raises(
        ConfigurationError, match="image_size: 0 was given, allowed is the side of squares, as 64, or"
    ):
        load_inputs(small(dataset=hospitals))
    features = load_inputs(
        small(dataset=hospitals, backbone=write_onnx(tmp_path / "network.onnx"), image_size=32)
    )
    assert features.train_inputs.dim() == 2
    assert features.train_clients.tolist() == [0] * 20 + [1] * 24
    assert not (tmp_path / "runs").exists()


def test_workers_map_the_file_that_is_there(tmp_path: Path, digits):
    images = load(str(write_split(tmp_path / "pictures")), tmp_path).train_inputs
    with open_file_of(images) as file:
        assert file.name == str(file_of(images))
        assert file.read() == images.numpy().tobytes()
    with open_file_of(digits.train_inputs) as file:
        file.seek(0)
        assert file.read() == digits.train_inputs.numpy().tobytes()


def test_reading_shows_how_far_it_is(tmp_path: Path, small):
    said: list[object] = []

    class Listener(Callback):
        def on_reading(self, done: int, total: int) -> None:
            said.append((done, total))

        def end_reading(self) -> None:
            said.append("end")

    load_inputs(small(dataset=write_split(tmp_path / "pictures")), Listener())
    assert said[-2:] == [(32, 32), "end"]
