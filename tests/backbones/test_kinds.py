"""Backbones of every kind compute what their network does; files that cannot work are one sentence."""

import sys
import warnings

import pytest
import torch
from onnx import TensorProto
from torch import nn

from fedactive.backbones.backbone import NORMALISATIONS
from fedactive.backbones.embedding import embed
from fedactive.backbones.find import find_backbone
from fedactive.data.loader import load
from fedactive.data.resize import resize
from fedactive.errors import UserError
from fedactive.experiment import Experiment
from fedactive.models import ModelSpec
from support.networks import FEATURES, network, normalised, write_onnx, write_torchscript
from support.photographs import write_photographs

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    file = write_photographs(tmp_path_factory.mktemp("data") / "photographs.npz")
    return load(str(file), file.parent).train_inputs[::16]


@torch.inference_mode()
@pytest.mark.parametrize("size", [224, 64])
def test_efficientnet_lite0_embeds_as_the_model_does(photographs, size):
    spec = ModelSpec("efficientnet_lite0", (3, size, size), 2, weights="pretrained")
    model = spec.build()
    model.load_state_dict(spec.initial_weights(torch.Generator().manual_seed(0)))
    found = embed(find_backbone("efficientnet_lite0"), photographs, size, CPU)
    expected = model.eval().embed((resize(photographs, size).float() - 127) / 128)
    assert found.shape == (len(photographs), 1280)
    assert torch.allclose(found, expected, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("kind", ["onnx", "torchscript"])
def test_files_embed_as_their_network_does(photographs, tmp_path, kind, normalise):
    file = write_onnx(tmp_path / "a.onnx") if kind == "onnx" else write_torchscript(tmp_path / "a.pt")
    found = embed(find_backbone(str(file), f"normalise={normalise}"), photographs, 40, CPU)
    expected = network()(normalised(resize(photographs, 40), *NORMALISATIONS[normalise])).flatten(1)
    assert found.shape == (len(photographs), FEATURES)
    assert torch.allclose(found, expected, atol=1e-5)


@torch.inference_mode()
def test_grey_images_are_three_equal_channels(digits, tmp_path):
    images = digits.train_inputs[:5]
    backbone = find_backbone(str(write_onnx(tmp_path / "a.onnx")))
    assert torch.equal(embed(backbone, images, 32, CPU), embed(backbone, images.repeat(1, 3, 1, 1), 32, CPU))


def test_a_file_with_batches_of_one_length_gets_those(photographs, tmp_path):
    free = find_backbone(str(write_onnx(tmp_path / "free.onnx")))
    for batch in (1, 4):
        fixed = find_backbone(str(write_onnx(tmp_path / f"{batch}.onnx", (batch, 3, "h", "w"))))
        assert torch.allclose(
            embed(fixed, photographs, 40, CPU), embed(free, photographs, 40, CPU), atol=1e-6
        )


def test_the_size_that_a_file_wants_is_the_default(tmp_path):
    fixed = str(write_onnx(tmp_path / "fixed.onnx", ("n", 3, 32, 32)))
    assert Experiment(dataset="digits", backbone=fixed).image_size == 32
    free = str(write_onnx(tmp_path / "free.onnx"))
    assert Experiment(dataset="digits", backbone=free).image_size == 224
    assert Experiment(dataset="digits", backbone=free, image_size=64).image_size == 64


@pytest.mark.parametrize(
    ("made", "options", "sentence"),
    [
        ({"outputs": ()}, "", "it has no outputs, expected one, with features"),
        (
            {"outputs": ("features", "maps")},
            "",
            "it has several outputs (features, maps); choose one with --backbone-options output=features",
        ),
        ({}, "output=pooled", "it has no output pooled, but features"),
        ({"inputs": 2}, "", "it has 2 inputs, expected one, for images"),
        (
            {"shape": ("n", 32, 32, 3)},
            "",
            "its input is tensor(float) (n, 32, 32, 3), expected tensor(float) (n, 3, height, width)",
        ),
        (
            {"kind": TensorProto.UINT8},
            "",
            "its input is tensor(uint8) (n, 3, height, width), expected tensor(float) (n, 3, height, width)",
        ),
        (
            {"shape": ("n", 3, 32, 32)},
            "",
            "image_size: 64 was given, allowed is 32 with FILE, whose input has that size",
        ),
    ],
)
def test_an_onnx_file_that_cannot_work_is_one_sentence_before_any_work(tmp_path, made, options, sentence):
    file = str(write_onnx(tmp_path / "a.onnx", **made))
    with pytest.raises(UserError) as error:
        Experiment(dataset="digits", backbone=file, backbone_options=options, image_size=64)
    assert str(error.value).removeprefix(f"backbone {file}: ") == sentence.replace("FILE", file)


def test_one_of_several_outputs_can_be_chosen(photographs, tmp_path):
    several = str(write_onnx(tmp_path / "several.onnx", outputs=("maps", "features")))
    one = find_backbone(str(write_onnx(tmp_path / "one.onnx")))
    chosen = find_backbone(several, "output=features")
    assert torch.equal(embed(chosen, photographs, 40, CPU), embed(one, photographs, 40, CPU))
    with pytest.raises(
        UserError, match=r"it makes \(5, 6, 19, 19\) of 5 images, expected \(5, d\): a row for"
    ):
        embed(find_backbone(several, "output=maps"), photographs, 40, CPU)


def test_what_is_no_onnx_file_is_one_sentence(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"something else")
    with pytest.raises(UserError, match=r"a.onnx: it cannot be read as ONNX \(.*\)$"):
        Experiment(dataset="digits", backbone=str(tmp_path / "a.onnx"))


def test_without_onnxruntime_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        UserError, match=r"^onnxruntime is missing: pip install 'fedactive\[onnx\]' brings it$"
    ):
        Experiment(dataset="digits", backbone=str(write_onnx(tmp_path / "lonely.onnx")))


def test_what_is_no_torchscript_file_is_one_sentence(photographs, tmp_path):
    torch.save(network().state_dict(), tmp_path / "a.pt")
    with pytest.raises(
        UserError, match=r"a.pt: it is no TorchScript file, or it is damaged; write one with torch.jit.save"
    ):
        embed(find_backbone(str(tmp_path / "a.pt")), photographs, 32, CPU)


def test_a_torchscript_file_of_another_size_is_one_sentence(photographs, tmp_path):
    flat = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (4, 768)), nn.AvgPool1d(768), nn.Flatten())
    file = write_torchscript(tmp_path / "a.pt", flat)
    assert embed(find_backbone(str(file)), photographs, 32, CPU).shape == (5, 4)
    with pytest.raises(UserError) as error:
        embed(find_backbone(str(file)), photographs, 40, CPU)
    assert f"backbone {file}: it cannot embed images of 40x40x3 (" in str(error.value)
    assert "\n" not in str(error.value)


class Writer(nn.Module):
    def forward(self, images):
        torch.save(images, "written")
        return images.mean((2, 3))


def test_a_torchscript_file_that_writes_files_is_refused(photographs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(Writer()), "a.pt")
        torch.jit.load("a.pt")(photographs.float())
    assert (tmp_path / "written").exists()
    (tmp_path / "written").unlink()
    with pytest.raises(UserError, match=r"a.pt: it would open files of this machine, which a model need not"):
        embed(find_backbone("a.pt"), photographs, 32, CPU)
    assert not (tmp_path / "written").exists()


class Twice(nn.Module):
    def forward(self, images):
        return images.mean((2, 3)), images.mean((2, 3))


def test_several_outputs_of_torchscript_are_one_sentence(photographs, tmp_path):
    file = write_torchscript(tmp_path / "a.pt", Twice())
    with pytest.raises(UserError, match="it returns 2 outputs, expected one, with features"):
        embed(find_backbone(str(file)), photographs, 32, CPU)
