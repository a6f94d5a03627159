"""The whole model computes what the run measured, whatever its inputs go through first."""

import pandas as pd
import pytest
import torch
from sklearn.datasets import load_sample_image

from fedactive import Silent
from fedactive.data.loader import load
from fedactive.data.resize import resize
from fedactive.export.network import Fit
from fedactive.export.run_model import read_run_model

KINDS = ["digits", "resized", "features", "efficientnet_lite0", "onnx", "torchscript"]


@pytest.mark.parametrize("size", [(20, 24), (427, 640), (500, 700), (20, 1000)])
def test_fit_is_the_resizing_of_training_up_to_rounding(size):
    photograph = torch.from_numpy(load_sample_image("china.jpg").copy()).permute(2, 0, 1)[None]
    found = Fit(*size)(photograph)
    difference = (found - resize(photograph, size).float()).abs()
    assert found.shape == (1, 3, *size)
    assert difference.max() <= 1
    assert difference.mean() < 0.02


def test_what_fits_is_not_changed(digits):
    assert torch.equal(Fit(8, 8)(digits.test_inputs), digits.test_inputs.float())


@pytest.mark.parametrize("kind", KINDS)
def test_the_accuracy_of_each_class_is_the_one_that_was_measured(trained, photographs, monkeypatch, kind):
    folder = trained(kind)
    monkeypatch.setattr("fedactive.export.run_model.CHECKED", 10_000)
    model = read_run_model(folder, Silent())
    data = load("digits" if kind == "digits" else str(photographs), photographs.parent)
    guesses = model.network(model.samples).argmax(1)
    right = [
        (guesses == data.test_labels)[data.test_labels == c].float().mean() for c in range(len(data.classes))
    ]
    measured = pd.read_parquet(folder / "metrics.parquet")
    last = measured[(measured["model"] == "global") & (measured["al_round"] == 2)].iloc[-1]
    assert right == pytest.approx(list(last["class_accuracy"]))
    if model.description.takes_images:
        as_trained = resize(model.samples, model.description.input_shape[1:])
    else:
        as_trained = model.samples
    assert torch.allclose(model.network(as_trained), model.expected, atol=1e-5)
