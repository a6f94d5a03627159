"""Predictions for images, folders, arrays and features; what cannot be read is named."""

import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import fedactive
from fedactive import Silent
from fedactive.data.loader import DataWarning, load
from fedactive.data.pictures import decode
from fedactive.errors import DataError, RunError, UserError
from fedactive.export.description import Description
from fedactive.export.run_model import read_run_model
from fedactive.export.samples import find_samples
from fedactive.export.usage import takes
from fedactive.record.run_folder import checkpoint_bytes, read_checkpoint
from support.commands import cli


@pytest.fixture
def model(exported):
    return fedactive.load_model(exported("efficientnet_lite0", ".safetensors"), device="cpu")


def test_a_folder_becomes_a_table_and_what_is_broken_is_named(exported, pictures, tmp_path):
    done = cli("predict", exported("efficientnet_lite0", ".onnx"), pictures, "-o", tmp_path / "found.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'found.csv'}: 4 predictions, 2 classes\n"
    broken = f"{pictures / 'broken.jpg'} is left out: it is not a PNG or JPEG image"
    assert done.stderr == f"warning: {broken}\n"
    table = pd.read_csv(tmp_path / "found.csv")
    assert list(table.columns) == ["image", "prediction", "p(temple)", "p(flower)"]
    names = ["china.jpg", "flower.jpg", "more/china.png", "more/flower.png"]
    assert list(table["image"]) == [str(pictures / name) for name in names]
    likeliest = np.where(table["p(temple)"] > table["p(flower)"], "temple", "flower")
    assert list(table["prediction"]) == list(likeliest)
    assert np.allclose(table["p(temple)"] + table["p(flower)"], 1, atol=1e-5)


def test_files_and_arrays_of_the_same_pictures_agree(model, pictures):
    files = [pictures / "more" / "china.png", str(pictures / "more" / "flower.png")]
    by_files = model.predict(files)
    array = np.stack([np.asarray(Image.open(file)) for file in files])
    by_array = model.predict(array)
    assert list(by_array["image"]) == ["0", "1"]
    assert np.array_equal(by_files.iloc[:, 2:], by_array.iloc[:, 2:])


def test_images_are_computed_as_they_were_for_training(trained, model, photographs):
    """Not only nearly: predict resizes as training does."""
    expected = read_run_model(trained("efficientnet_lite0"), Silent()).expected
    assert np.allclose(model.predict(photographs).iloc[:, 2:], expected, atol=1e-5)


def test_colours_become_grey_for_a_model_of_grey_images(trained, pictures):
    grey = fedactive.load_model(trained("digits"), device="cpu")
    assert grey.classes == tuple("0123456789")
    picture = pictures / "china.jpg"
    as_grey = np.asarray(Image.open(picture).convert("L"))[None]
    assert np.array_equal(grey.predict(picture).iloc[:, 2:], grey.predict(as_grey).iloc[:, 2:])


def test_pictures_get_margins_where_sites_gave_them(between_sites, pictures):
    model, file = fedactive.load_model(between_sites, device="cpu"), pictures / "china.jpg"
    as_at_sites = decode(file, (1, 8, 8)).pixels
    assert (as_at_sites[:, 0] == 0).all()
    (sample,) = find_samples(file, model.description)
    assert np.array_equal(sample.read(), as_at_sites)
    found = model.predict(file).iloc[:, 2:]
    assert np.array_equal(found, model.predict(as_at_sites).iloc[:, 2:])
    assert not np.array_equal(found, model.predict(pictures / "more" / "china.png").iloc[:, 2:])


def test_deep_pictures_are_seen_in_the_window_of_the_plan(between_sites, tmp_path):
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 60
    Image.fromarray(values).save(tmp_path / "deep.png")
    plain = fedactive.load_model(between_sites, device="cpu").description
    stated = replace(plain, window=(1000.0, 400.0))
    assert "window" not in plain.to_json()
    for description in (plain, stated):
        assert Description.from_json(description.to_json(), "here") == description
        (sample,) = find_samples(tmp_path / "deep.png", description)
        window = description.window
        assert np.array_equal(sample.read(), decode(tmp_path / "deep.png", (1, 8, 8), window).pixels)
    assert "level 1000 and width 400: apply that" in takes(stated, ".onnx")


def test_many_images_are_predicted_in_parts_and_progress_is_told(trained, digits, monkeypatch):
    monkeypatch.setattr("fedactive.export.trained_model.AT_A_TIME", 50)
    told = []
    images = digits.test_inputs[:120, 0].numpy()
    model = fedactive.load_model(trained("digits"), device="cpu")
    table = model.predict(images, lambda done, total: told.append((done, total)))
    assert told == [(50, 120), (100, 120), (120, 120)]
    logits = read_run_model(trained("digits"), Silent()).network(digits.test_inputs[:120])
    assert np.allclose(table.iloc[:, 2:], logits, atol=1e-5)


# --- what cannot be


def test_if_nothing_can_be_read_that_is_an_error(model, pictures, tmp_path):
    (tmp_path / "other.png").write_bytes(b"")
    first = pictures / "broken.jpg"
    with pytest.warns(DataWarning), pytest.raises(DataError) as error:
        model.predict([first, tmp_path / "other.png"])
    sentence = f"none of 2 images can be read; the first is {first}: it is not a PNG or JPEG image"
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (
            "features",
            "pictures",
            "the model takes vectors of 3 features, in an .npz file with the array features",
        ),
        (
            "features",
            "photographs.npz",
            "the model takes vectors of 3 features, and the array features is missing",
        ),
        ("digits", "features.npz", "the model takes images of 8x8x1, and the array images is missing"),
        ("digits", "nowhere", "there is no such file or folder"),
        ("digits", "cache", "there is no image in this folder (png, jpg, dcm)"),
    ],
)
def test_other_inputs_are_one_sentence(exported, place, pictures, photographs, kind, given, sentence):
    for made in ("features", "efficientnet_lite0"):  # their data, their cache
        exported(made, ".safetensors")
    model = fedactive.load_model(exported(kind, ".safetensors"), device="cpu")
    with pytest.raises(DataError) as error:
        model.predict(place / given)
    assert str(error.value) == f"{place / given}: {sentence}"


@pytest.mark.parametrize(
    ("kind", "array", "expected"),
    [
        ("digits", np.zeros((2, 8, 8)), "uint8 (n, height, width) or (n, height, width, 3)"),
        ("features", np.zeros((2, 4)), "vectors of 3 features"),
    ],
)
def test_other_arrays_are_refused(exported, kind, array, expected):
    model = fedactive.load_model(exported(kind, ".safetensors"), device="cpu")
    with pytest.raises(DataError) as error:
        model.predict(array)
    assert str(error.value) == f"array: float64 {array.shape}, expected {expected}"


def test_features_must_be_there_and_finite(exported):
    model = fedactive.load_model(exported("features", ".safetensors"), device="cpu")
    with pytest.raises(DataError, match="array: row 1 holds a number that is not finite"):
        model.predict(np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]))
    with pytest.raises(DataError, match="there is nothing to predict"):
        model.predict(np.zeros((0, 3)))


@pytest.mark.parametrize("ending", [".onnx", ".pt", ".safetensors"])
def test_files_that_are_not_exported_models_are_refused(exported, place, tmp_path, ending):
    with pytest.raises(RunError, match="there is no such run folder or file"):
        fedactive.load_model(tmp_path / f"model{ending}")
    content = exported("digits", ending).read_bytes()
    (tmp_path / f"model{ending}").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=f"model{ending}: .*damaged"):
        fedactive.load_model(tmp_path / f"model{ending}")
    other = {".onnx": "network.onnx", ".pt": "network.pt"}.get(ending)
    if other:
        exported({".onnx": "onnx", ".pt": "torchscript"}[ending], ".onnx")
        with pytest.raises(DataError, match="`fedactive export` did not write this file"):
            fedactive.load_model(place / other)


def test_a_head_that_is_nested_without_end_is_one_sentence(tmp_path):
    head = b"[" * 100_000
    (tmp_path / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    with pytest.raises(DataError, match="`fedactive export` did not write this file"):
        fedactive.load_model(tmp_path / "model.safetensors")


def test_a_torchscript_file_whose_code_cannot_be_unpacked_is_one_sentence(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/code/a.py", "pass" * 1000)
    content = bytearray((tmp_path / "model.pt").read_bytes())
    content[45:55] = b"\xff" * 10
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(DataError, match="it is no TorchScript file, or it is damaged"):
        fedactive.load_model(tmp_path / "model.pt")


def test_a_run_whose_dataset_is_gone_says_what_is_missing(trained, photographs, tmp_path):
    folder = trained("resized")
    moved = photographs.rename(tmp_path / photographs.name)
    try:
        with pytest.raises(UserError, match=r"the path of an \.npz file that exists"):
            fedactive.load_model(folder)
        assert fedactive.load_model(folder, data_dir=tmp_path).classes == ("temple", "flower")
    finally:
        moved.rename(photographs)


def test_another_dataset_than_the_run_had_is_refused(trained, monkeypatch):
    other = load("digits", "data")
    other.train_labels[0] += 1
    monkeypatch.setattr("fedactive.export.run_model.read_dataset", lambda *_: other)
    with pytest.raises(RunError, match=r"digits is not the dataset that .* was trained on"):
        fedactive.load_model(trained("digits"))


def test_a_run_in_the_middle_of_a_round_has_no_model_yet(small, tmp_path):
    folder = fedactive.run(small(rounds=1, fl_rounds=2, strategy="random"), Silent()).folder
    again = "is not complete; the command that began the run goes on with it"
    state = read_checkpoint(folder / "checkpoint.pt")
    state.seconds[2, "training"] = 1.0  # of a round in which nothing was left to query
    (folder / "checkpoint.pt").write_bytes(checkpoint_bytes(state))
    with pytest.raises(RunError, match=f"AL round 2 {again}"):
        fedactive.load_model(folder)
    state.al_round, state.fl_round, state.seconds = 1, 1, {}
    (folder / "checkpoint.pt").write_bytes(checkpoint_bytes(state))
    with pytest.raises(RunError, match=f"AL round 1 {again}"):
        fedactive.load_model(folder)
    (folder / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(RunError, match=r"checkpoint\.pt is damaged, and with it the model"):
        fedactive.load_model(folder)


def test_a_model_that_diverged_is_refused(small):
    folder = fedactive.run(small(rounds=1, fl_rounds=2, strategy="random"), Silent()).folder
    state = read_checkpoint(folder / "checkpoint.pt")
    state.server.weights["head.bias"][0] = float("nan")
    (folder / "checkpoint.pt").write_bytes(checkpoint_bytes(state))
    with pytest.raises(RunError, match="training diverged, and its model is no use"):
        fedactive.load_model(folder)


def test_export_refuses_other_endings_before_any_work(tmp_path):
    done = cli("export", tmp_path, "-o", tmp_path / "model.h5")
    assert done.returncode == 2
    assert done.stderr.endswith("allowed is a file that ends with .onnx, .safetensors, .pt\n")


def test_no_warnings_but_those_of_pictures(model, pictures):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.predict(pictures)
    assert [warning.category for warning in said] == [DataWarning]
