"""Datasets of image files: read at one size, known by their content, split by it, refused in one sentence."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedactive.data.dataset import Dataset
from fedactive.data.loader import check, find_classes, load
from fedactive.data.own_data import find_own
from fedactive.data.own_file import has_path, is_own_file, short_name
from fedactive.data.own_images import mean_and_std
from fedactive.data.pictures import see
from fedactive.errors import ConfigurationError, DataError
from fedactive.experiment import Experiment
from support.picture_files import drawing, write_folder, write_split

HERE = Path("nowhere")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDACTIVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def read(source: Path, size: int = 0, share: float = 0.2) -> Dataset:
    return load(str(source), HERE, image_size=size, test_share=share)


def test_it_is_a_dataset_like_any_other(tmp_path: Path):
    data = read(write_split(tmp_path / "my pictures"))
    assert (data.name, data.classes, data.input_shape) == ("my-pictures", ("ant", "bee"), (3, 12, 12))
    assert data.train_labels.tolist() == [0] * 8 + [1] * 8
    wanted = np.stack([np.asarray(drawing(0, k)) for k in range(1000, 1008)]).transpose(0, 3, 1, 2)
    assert np.array_equal(data.train_inputs[:8].numpy(), wanted)
    assert len(data.test_inputs) == 16
    assert (data.mean, data.std) == mean_and_std(data.train_inputs.numpy())
    assert find_classes(str(tmp_path / "my pictures"), HERE) == ("ant", "bee")
    (report,) = check(str(tmp_path / "my pictures"), HERE)
    assert report.content == "16 training and 16 test images of 12x12 in colour, 2 classes"


@pytest.mark.parametrize(
    ("name", "own", "short"),
    [
        ("pictures/", True, "pictures"),
        ("/data/my pictures", True, "my-pictures"),
        ("a.b/images.CSV", True, "images"),
        ("cifar10", False, "cifar10"),
        ("nowhere", False, "nowhere"),
        ("python:my flowers", True, "my-flowers"),
    ],
)
def test_it_is_told_from_names(name: str, own: bool, short: str):
    assert (is_own_file(name), short_name(name)) == (own, short)
    assert has_path(name) is (own and name != "python:my flowers")  # which lies in the cache


def test_all_kinds_of_pictures_become_the_same(tmp_path: Path):
    folder = write_folder(tmp_path / "kinds", "ant", "bee", each=6, grey=True)
    wanted = read(folder)
    assert wanted.input_shape == (1, 12, 12)
    for k, ending in enumerate(("bmp", "tiff", "webp", "gif", "pgm")):
        image = drawing(0, 1000 + k, grey=True)
        (folder / "ant" / f"{1000 + k}.png").unlink()
        image.save(
            folder / "ant" / f"{1000 + k}.{ending}", **({"lossless": True} if ending == "webp" else {})
        )
    found = read(folder)  # webp and gif have colours, which are all grey
    assert found.input_shape == (3, 12, 12)
    assert "in colour" in check(str(folder), HERE)[0].content
    images = {
        tuple(image.flatten().tolist()) for image in torch.cat([found.train_inputs, found.test_inputs])[:, 0]
    }
    assert images == {
        tuple(image.flatten().tolist()) for image in torch.cat([wanted.train_inputs, wanted.test_inputs])
    }


def test_photos_are_turned_upright_and_resized(tmp_path: Path):
    folder = write_split(tmp_path / "sizes", each=2)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held sideways
    drawing(0, 1, (24, 30)).transpose(Image.Transpose.ROTATE_90).save(
        folder / "train" / "ant" / "turned.png", exif=exif
    )
    with pytest.raises(
        ConfigurationError, match="image_size: 0 was given, allowed is the side of squares"
    ) as said:
        read(folder)
    assert str(said.value).endswith("sizes have 2 sizes, as 12x12 and 30x24")
    data = read(folder, 16)
    assert data.input_shape == (3, 16, 16)
    bright = data.train_inputs[2].float().mean((0, 1))
    assert bright[:4].mean() > 2 * bright[5:].mean()  # the bar is at the left, as it was seen


def test_the_content_splits_one_folder(tmp_path: Path):
    folder = write_folder(tmp_path / "one", "ant", "bee", "cat", each=60)
    data = read(folder)
    assert 20 < len(data.test_inputs) < 55
    assert len(data.train_inputs) + len(data.test_inputs) == 180
    assert torch.equal(load(str(folder), HERE).test_inputs, data.test_inputs)  # a fifth, unless one says more
    half = read(folder, share=0.5)
    assert 70 < len(half.test_inputs) < 110
    shutil.move(folder / "ant" / "1000.png", folder / "ant" / "zzz.png")
    again = read(folder)
    assert sorted(map(hash_of, again.test_inputs)) == sorted(map(hash_of, data.test_inputs))


def hash_of(image: torch.Tensor) -> int:
    return hash(image.numpy().tobytes())


def test_a_run_knows_the_content_and_not_the_place(tmp_path: Path):
    folder = write_split(tmp_path / "here")
    first = Experiment(dataset=str(folder))
    shutil.copytree(folder, tmp_path / "there" / "here")
    assert Experiment(dataset=str(tmp_path / "there" / "here")).hash == first.hash
    moved = shutil.move(folder, tmp_path / "data" / "here")
    known = {"dataset": str(folder), "dataset_sha256": first.dataset_sha256, "data_dir": tmp_path / "data"}
    assert Experiment(**known).name == first.name  # type: ignore[arg-type]
    assert load(*Experiment(**known).source).name == "here"  # type: ignore[arg-type]
    drawing(0, 1).save(Path(moved) / "train" / "ant" / "more.png")
    with pytest.raises(DataError, match="not the same folder: its SHA-256 begins with"):
        load(*Experiment(**known).source)  # type: ignore[arg-type]
    assert Experiment(dataset=str(moved)).hash != first.hash


@pytest.mark.parametrize("change", ["another label", "another name", "other bytes", "another client"])
def test_the_content_is_labels_names_clients_and_bytes(tmp_path: Path, change: str):
    folder = write_folder(tmp_path, "clients/a/ant", "clients/a/bee", "clients/b/ant", "clients/b/bee")
    before = find_own(str(folder), HERE).digest
    file = folder / "clients" / "a" / "ant" / "1003.png"
    if change == "another label":
        shutil.move(file, folder / "clients" / "a" / "bee" / file.name)
    elif change == "another name":
        shutil.move(file, file.with_name("x.png"))
    elif change == "another client":
        shutil.move(file, folder / "clients" / "b" / "ant" / file.name)
    else:
        drawing(0, 77).save(file)
    assert find_own(str(folder), HERE).digest != before


def test_files_are_read_again_only_if_they_changed(tmp_path: Path, cache: Path):
    folder = write_split(tmp_path / "pictures")
    before = find_own(str(folder), HERE).digest
    (kept,) = cache.glob("files/*.json")
    facts = json.loads(kept.read_text())
    facts["train/ant/1000.png"][1][0] = "0" * 64
    kept.write_text(json.dumps(facts))
    assert find_own(str(folder), HERE).digest != before  # what is kept was believed
    kept.write_text("damaged")
    assert find_own(str(folder), HERE).digest == before


def test_unreadable_files_are_named(tmp_path: Path):
    folder = write_split(tmp_path / "pictures")
    (folder / "train" / "ant" / "text.jpg").write_text("no picture")
    (folder / "train" / "bee" / "empty.png").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        read(folder)
    assert str(caught.value) == (
        f"{folder}: cannot use train/ant/text.jpg (it is not an image), train/bee/empty.png "
        "(it is not an image); repair these files or take them away"
    )
    (folder / "train" / "ant" / "text.jpg").unlink()
    (folder / "train" / "bee" / "empty.png").unlink()
    Image.fromarray(np.zeros((12, 12), np.float32)).save(folder / "test" / "ant" / "real.tiff")
    with pytest.raises(DataError, match=r"real\.tiff \(its pixels are real numbers, expected 8 or 16 bits\)"):
        read(folder)


def test_a_picture_that_is_small_on_disk_only_is_named(tmp_path: Path):
    """Of one of up to twice its limit Pillow only warns, and the command line would go on."""
    folder = write_split(tmp_path / "pictures")
    Image.new("1", (10_000, 10_000)).save(folder / "test" / "ant" / "bomb.png")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with pytest.raises(DataError, match=r"cannot use test/ant/bomb\.png \(it is too large\)"):
            read(folder)
        assert see(folder / "test" / "ant" / "bomb.png") == "it is too large"


def test_a_picture_that_ends_too_early_is_named(tmp_path: Path):
    folder = write_split(tmp_path / "pictures")
    file = folder / "train" / "ant" / "cut.jpg"
    drawing(0, 1, (96, 96)).save(file, quality=95)
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"cannot use train/ant/cut\.jpg \(it cannot be decoded"):
        read(folder, 12)


def test_sets_that_cannot_be_learnt(tmp_path: Path):
    one = write_folder(tmp_path / "one", "train/ant", "test/ant")
    with pytest.raises(DataError, match="all images are of class ant, expected two classes or more"):
        read(one)
    untrained = write_folder(tmp_path / "untrained", "train/ant", "train/bee", "test/cat")
    with pytest.raises(DataError, match="class cat has no image for training; every class needs some"):
        read(untrained)
    with pytest.raises(DataError, match="none of its 2 images is for"):
        read(write_folder(tmp_path / "few", "ant", "bee", each=1), share=0.01)
    tiny = write_split(tmp_path / "tiny", size=(3, 12))
    with pytest.raises(ConfigurationError, match=r"image_size: .*/tiny are 12x3"):
        read(tiny)


def test_numbers_are_classes_in_their_order(tmp_path: Path):
    write_folder(tmp_path, "ant", each=4)
    lines = ["path,label,split", "ant/1000.png,10,train", "ant/1001.png,9,train", "ant/1002.png,9,test"]
    (tmp_path / "images.csv").write_text("\n".join(lines))
    assert read(tmp_path / "images.csv").classes == ("9", "10")
    lines[1] = "ant/1000.png,1O,train"  # not a number: then all are words
    (tmp_path / "images.csv").write_text("\n".join(lines))
    assert read(tmp_path / "images.csv").classes == ("1O", "9")


def test_clients_are_as_folders_say(tmp_path: Path):
    folder = write_folder(tmp_path / "h", "clients/north/ant", "clients/south/bee", "clients/south/ant")
    write_folder(folder, "test/ant", "test/bee")
    e = Experiment(dataset=str(folder), partition="given")
    assert e.clients == 2
    assert load(*e.source).train_clients.tolist() == [0] * 8 + [1] * 16  # type: ignore[union-attr]
    assert "2 classes, 2 clients" in check(str(folder), HERE)[0].content


def test_a_client_without_samples_is_named(tmp_path: Path):
    write_folder(tmp_path, "ant", "bee", each=4)
    rows = [
        f"{word}/{k + 1000 * i}.png,{word},train,north"
        for i, word in enumerate(("ant", "bee"), 1)
        for k in range(3)
    ]
    rows += ["ant/1003.png,ant,test,south", "bee/2003.png,bee,test,north"]
    (tmp_path / "images.csv").write_text("\n".join(["path,label,split,client", *rows]))
    with pytest.raises(DataError, match="client south has no image for training; every client needs some"):
        Experiment(dataset=str(tmp_path / "images.csv"), partition="given")
