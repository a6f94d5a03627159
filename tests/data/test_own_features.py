"""Features in a file of the user's own: any vectors with labels."""

import numpy as np
import pytest
import torch

import fedactive
from fedactive import Experiment, Silent
from fedactive.data.loader import check, load
from fedactive.data.own_features import LENGTH
from fedactive.data.preprocess import Normalise
from fedactive.engines.batched import BatchedEngine
from fedactive.engines.parallel import ParallelEngine
from fedactive.engines.sequential import SequentialEngine
from fedactive.errors import ConfigurationError, DataError
from fedactive.federated.local_sgd import LocalJob, Recipe
from fedactive.models import ModelSpec
from fedactive.models.contract import check_model


@pytest.fixture
def arrays(digits):
    """The digits as 64 numbers each, the first of which is always the same."""
    found = {"classes": np.array([f"digit {k}" for k in range(10)])}
    for split in ("train", "test"):
        pixels = getattr(digits, f"{split}_inputs").flatten(1).numpy().astype(np.float64)
        found |= {f"{split}_features": pixels, f"{split}_labels": getattr(digits, f"{split}_labels").numpy()}
    return found


def but_one(array, row, value):
    array = array.copy()
    array[row, 2] = value
    return array


@pytest.fixture
def file(tmp_path, arrays):
    arrays["test_features"][::2, 0] += 3  # constant in training only
    np.savez(tmp_path / "vectors.npz", **arrays)
    return tmp_path / "vectors.npz"


def test_features_are_read_and_described(file, tmp_path):
    data = load(str(file), tmp_path)
    assert (data.name, data.input_shape, data.classes[3]) == ("vectors", (64,), "digit 3")
    assert data.train_inputs.dtype == torch.float32
    (report,) = check(str(file), tmp_path)
    counts = f"{len(data.train_labels)} training and {len(data.test_labels)} test samples"
    assert (report.problem, report.content) == (None, f"{counts} of 64 features, 10 classes")


def test_features_are_standardised_and_of_one_length(file, arrays, tmp_path):
    data = load(str(file), tmp_path)
    seen = Normalise(data.input_shape, data.mean, data.std, torch.device("cpu"))
    train = arrays["train_features"]
    std = train.std(0)
    assert std[0] == 0
    assert LENGTH == 10
    for split in ("train", "test"):  # both by what the training samples are like
        standard = (arrays[f"{split}_features"] - train.mean(0)) / np.where(std > 0, std, 1)
        expected = LENGTH * standard / np.linalg.norm(standard, axis=1, keepdims=True)
        found = seen(getattr(data, f"{split}_inputs"))
        assert torch.allclose(found.double(), torch.from_numpy(expected), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "train_features",
            np.full((5, 3), np.nan),
            "train_features hold a number that is not finite, in row 0",
        ),
        (
            "test_features",
            np.zeros((5, 3, 2)),
            "test_features are float64 (5, 3, 2), expected numbers, one row",
        ),
        ("test_features", np.zeros((5, 0)), "test_features are float64 (5, 0), expected numbers, one row"),
        ("test_features", np.zeros((5, 3)), "test_features have 3 columns, train_features 64"),
        ("test_features", np.full((5, 64), "x"), "test_features are <U1 (5, 64), expected numbers"),
        ("train_labels", np.zeros(5, int), "train samples but 5 train labels"),
        ("train_labels", np.zeros(5), "train_labels are float64, expected integers"),
        ("test_labels", np.zeros(0, int), "test_labels are empty"),
        ("classes", np.array([f"{k}" for k in range(11)]), "train_labels lack 10, the class 10"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(arrays, tmp_path, name, array, message):
    np.savez(tmp_path / "bad.npz", **arrays | {name: array})
    with pytest.raises(DataError) as error:
        load(str(tmp_path / "bad.npz"), tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_row_of_a_number_that_is_not_finite_is_named(arrays, tmp_path, value):
    arrays["test_features"] = but_one(arrays["test_features"], 7, value)
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match="test_features hold a number that is not finite, in row 7"):
        load(str(tmp_path / "bad.npz"), tmp_path)


def test_an_array_that_is_missing_is_named(arrays, tmp_path):
    del arrays["test_features"]
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match="the array test_features is missing"):
        load(str(tmp_path / "bad.npz"), tmp_path)


def test_a_model_for_images_is_refused(file, small):
    with pytest.raises(ConfigurationError, match="model: 'cnn4' was given, allowed is a model for features"):
        fedactive.run(small(dataset=str(file), model="cnn4"), Silent())


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_models_for_features_keep_the_contract(name):
    check_model(name, (16,))


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_engines_agree_on_features(file, tmp_path, name):
    data, recipe = load(str(file), tmp_path), Recipe()
    spec = ModelSpec(name, data.input_shape, 10)
    start = spec.initial_weights(torch.Generator().manual_seed(0))
    jobs = [
        LocalJob(start, torch.arange(k, 900, 3), data.train_labels[k:900:3], 2, (0.01,) * 10, k)
        for k in range(3)
    ]
    with (
        SequentialEngine(spec, data, recipe, torch.device("cpu")) as one,
        ParallelEngine(spec, data, recipe, 1) as other,
        BatchedEngine(spec, data, recipe, torch.device("cpu")) as batched,
    ):
        results = zip(*(engine.train(jobs) for engine in (one, other, batched)), strict=True)
        for a, b, c in results:
            assert all(torch.equal(a.weights[key], b.weights[key]) for key in start)
            assert all(torch.allclose(a.weights[key], c.weights[key], atol=1e-4) for key in start)
        assert one.evaluate(start) == other.evaluate(start) == batched.evaluate(start)


@pytest.mark.parametrize("strategy", ["logo", "typiclust", "badge"])
def test_a_linear_model_learns_from_features(file, small, strategy):
    experiment: Experiment = small(
        dataset=str(file), model="linear", strategy=strategy, fl_rounds=20, local_epochs=5
    )
    result = fedactive.run(experiment, Silent())
    assert result.accuracy.iloc[-1] > 0.8
