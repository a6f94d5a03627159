"""Sound things of every kind, small and each made once: what the fuzz test then damages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pydicom
from PIL import Image

from fedactive.experiment import Experiment
from fedactive.export.write import write_model
from fedactive.laboratory.run import run
from fedactive.progress import Silent
from fedactive.record.export import export
from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.member import Member
from fedactive.sites.site.collection import Collection
from fedactive.sites.site.folder import Site
from support.dicoms import PUBLISHED
from support.folders import make_site
from support.networks import write_onnx, write_torchscript
from support.picture_files import drawing, write_split

TINY = {
    "augment": "none",
    "clients": "2",
    "rounds": "2",
    "fl_rounds": "2",
    "local_epochs": "1",
    "local_only_epochs": "1",
    "model": "mlp",
    "model_options": "width=4",
    "budget": "4/client",
    "strategy": "random",
    "device": "cpu",
    "workers": "1",
}
DICOMS = ("CT_small", "MR_small", "JPEG2000", "SC_rgb_small_odd", "MR_small_RLE", "MR_small_jpeg_ls_lossless")
PLAN = """
dataset = "hospital"
strategy = "entropy"
rounds = 2
fl_rounds = 3
local_epochs = 1
augment = "none"
model = "mlp"
device = "cpu"

[images]
channels = 1
size = 8
classes = ["cat", "dog"]
mean = [0.5]
std = [0.25]

[field]
quorum = 0.5
deadline = 2.0
clip = 1.0
noise = 0.01
"""
SUITE = """
question = "Does it work?"
methods = ["random", "entropy selector=local"]
seeds = [1, 2]
metrics = ["accuracy", "balanced_accuracy"]

[settings]
dataset = "cifar10"
alpha = [0.1, 1.0]
rounds = 2

[[variants]]
budget = 5.0

[[variants]]
budget = 10.0
"""


class Sound:
    """Everything is made when it is first asked for, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def experiment(self, **changes: object) -> Experiment:
        values = TINY | {"dataset": str(self.images), "runs_dir": str(self.folder / "runs")}
        return Experiment.from_values(values | changes)

    @cached_property
    def images(self) -> Path:
        pixels = {split: [drawing(k % 2, k, (6, 6), grey=True) for k in range(24)] for split in SPLITS}
        arrays = {
            f"{split}_images": np.stack(list(map(np.asarray, found))) for split, found in pixels.items()
        }
        names = np.array([f"clinic {k // 12}" for k in range(24)])
        return self.write_arrays("images.npz", arrays | {"train_clients": names, "classes": CLASSES})

    @cached_property
    def features(self) -> Path:
        rng = np.random.default_rng(1)
        arrays = {f"{split}_features": rng.normal(size=(24, 5)).astype(np.float32) for split in SPLITS}
        return self.write_arrays("features.npz", arrays)

    def write_arrays(self, name: str, arrays: dict[str, np.ndarray]) -> Path:
        labels = {f"{split}_labels": np.arange(24) % 2 for split in SPLITS}
        np.savez_compressed(self.folder / name, **arrays, **labels)
        return self.folder / name

    @cached_property
    def pictures(self) -> Path:
        """A folder of images by class, in several formats, and a table of them."""
        folder = write_split(self.folder / "pictures", each=4, size=(7, 6))
        drawing(0, 1).save(folder / "train" / "ant" / "photo.jpg")
        drawing(1, 2).convert("P").save(folder / "train" / "bee" / "drawing.gif")
        Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 900).save(
            folder / "train" / "bee" / "deep.png"
        )
        found = sorted(path.relative_to(folder) for path in folder.rglob("*.*"))
        rows = [f"{path.as_posix()},{path.parts[1]},{path.parts[0]},site" for path in found]
        (folder / "table.csv").write_text("\n".join(["path,label,split,client", *rows]) + "\n")
        return folder

    @cached_property
    def dicoms(self) -> Path:
        folder = self.folder / "dicoms"
        folder.mkdir()
        for name in DICOMS:
            shutil.copy(PUBLISHED / f"{name}.dcm", folder)
            assert "PixelData" in pydicom.dcmread(folder / f"{name}.dcm")
        return folder

    @cached_property
    def run(self) -> Path:
        """A finished run of two AL rounds, with its checkpoint."""
        return run(self.experiment(), Silent()).folder

    @cached_property
    def results(self) -> Path:
        """The results file of two runs."""
        other = run(replace(self.experiment(), seed=2), Silent()).folder
        export([self.run, other], self.folder / "results")
        return self.folder / "results"

    @cached_property
    def models(self) -> list[Path]:
        made = [self.folder / f"model.{ending}" for ending in ("onnx", "pt", "safetensors")]
        for path in made:
            write_model(self.run, path, Silent())
        return made

    @cached_property
    def backbones(self) -> list[Path]:
        return [write_onnx(self.folder / "network.onnx"), write_torchscript(self.folder / "network.pt")]

    @cached_property
    def hub(self) -> Path:
        """A coordinator that has admitted a site, begun a run and served."""
        coordinator = Coordinator.init(self.folder / "hub", "coordinator.example.org:9443")
        coordinator.write_sites([Member("north", 1, "key", False)])
        plan = coordinator.keep_plan(PLAN)
        coordinator.begin(plan)
        coordinator.want(plan.experiment.name, True)
        (coordinator.folder / "former.json").write_text('{"addresses": ["old.example.org:9443"]}')
        (coordinator.folder / "plan.toml").write_text(PLAN)
        return coordinator.folder

    @cached_property
    def site(self) -> Path:
        """A site that has joined, with a person who labels."""
        (self.folder / "north").mkdir()
        site: Site = make_site(self.folder / "north")
        site.join(self.hub / "invitation.toml")
        store = site.store()
        Collection(site, store)
        store.annotators.add("ada")
        site.keep_classes(store)
        store.close()
        return site.folder.parent


SPLITS = ("train", "test")
CLASSES = np.array(["ant", "bee"])
Make = Callable[[Sound], object]
