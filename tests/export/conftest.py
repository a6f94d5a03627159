"""Finished runs of every kind, each made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from fedactive import Experiment, Silent
from fedactive.data.loader import load
from fedactive.export.write import write_model
from fedactive.laboratory.run import run
from fedactive.sites.coordinator import correspondence
from fedactive.sites.coordinator.plan import FieldPlan
from fedactive.sites.coordinator.run_plan import run_plan
from support.loopback import loopback
from support.networks import write_onnx, write_torchscript
from support.photographs import write_photographs

QUICK = {
    "clients": 2,
    "rounds": 2,
    "fl_rounds": 4,
    "local_epochs": 1,
    "augment": "none",
    "strategy": "random",
}
HERE = {"device": "cpu", "workers": 1}
NAMES = ["north", "south"]
PLAN = """
dataset = "digits"
strategy = "random"
rounds = 2
fl_rounds = 3
local_epochs = 1
augment = "none"
device = "cpu"

[field]
clip = 1.0
noise = 0.01
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for all runs, with the embeddings that they need."""
    folder = tmp_path_factory.mktemp("export")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDACTIVE_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="session")
def photographs(place: Path) -> Path:
    return write_photographs(place / "photographs.npz")


@pytest.fixture(scope="session")
def trained(place: Path, photographs: Path) -> Callable[[str], Path]:
    """Return the folder of a run by what its model sees."""
    made: dict[str, Path] = {}

    def settings(kind: str) -> dict[str, object]:
        frozen = {"dataset": photographs, "image_size": 64, "budget": 10}
        if kind == "digits":
            return {"dataset": "digits"}
        if kind == "resized":
            return frozen | {"image_size": 24, "budget": 25}
        if kind == "features":
            data = load(str(photographs), place)
            arrays = {
                f"{split}_features": inputs.float().mean((2, 3)).numpy() * [1.0, 0.01, 100.0]
                for split, inputs in (("train", data.train_inputs), ("test", data.test_inputs))
            }
            arrays |= {"train_labels": data.train_labels.numpy(), "test_labels": data.test_labels.numpy()}
            np.savez(place / "features.npz", **arrays)
            return {
                "dataset": place / "features.npz",
                "model": "mlp",
                "model_options": "width=8",
                "budget": 10,
            }
        if kind == "onnx":
            return frozen | {
                "backbone": write_onnx(place / "network.onnx"),
                "backbone_options": "normalise=half",
            }
        if kind == "torchscript":
            return frozen | {"backbone": write_torchscript(place / "network.pt")}
        return frozen | {"backbone": kind}

    def make(kind: str) -> Path:
        if kind not in made:
            values = QUICK | HERE | settings(kind) | {"runs_dir": place / "runs"}
            made[kind] = run(Experiment(**values), Silent()).folder  # type: ignore[arg-type]
        return made[kind]

    return make


@pytest.fixture(scope="session")
def exported(place: Path, trained: Callable[[str], Path]) -> Callable[[str, str], Path]:
    """Return the exported file of a run."""
    made: dict[tuple[str, str], Path] = {}

    def make(kind: str, ending: str) -> Path:
        if (kind, ending) not in made:
            made[kind, ending] = place / f"model-{kind}{ending}"
            write_model(trained(kind), made[kind, ending], Silent())
        return made[kind, ending]

    return make


@pytest.fixture(scope="session")
def between_sites(place: Path) -> Path:
    """A run folder of a coordinator, who keeps the plan beside it."""
    hub = place / "hub"
    plan = FieldPlan.from_toml(PLAN, clients=len(NAMES), runs_dir=hub / "runs")
    (hub / "plans").mkdir(parents=True)
    (hub / "plans" / f"{plan.experiment.name}.toml").write_text(PLAN)
    plan.experiment.folder.mkdir(parents=True)
    (plan.experiment.folder / "sites.json").write_text('{"sites": ["north", "south"]}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correspondence, "FIRST_PAUSE", 0.01)
        return run_plan(plan, loopback(plan.experiment, place / "sites"), NAMES).folder


@pytest.fixture(scope="session")
def pictures(place: Path) -> Path:
    """A folder of photographs of several sizes, one of which is no photograph."""
    folder = place / "pictures"
    (folder / "more").mkdir(parents=True)
    for name in ("china", "flower"):
        photograph = load_sample_image(f"{name}.jpg")
        Image.fromarray(photograph[100:300, 200:500]).save(folder / f"{name}.jpg")
        Image.fromarray(photograph[50:80, 100:160]).save(folder / "more" / f"{name}.png")
    (folder / "broken.jpg").write_bytes(b"no photograph")
    return folder
