"""Which images are in a folder or a table, and the one sentence where that cannot be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedactive.data.listing import Listed, list_images
from fedactive.errors import DataError
from support.picture_files import write_folder, write_split


def test_folders_are_classes_and_say_what_is_for_tests(tmp_path: Path):
    write_split(tmp_path, each=1)
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "train" / "ant" / ".hidden.png").write_bytes(b"")
    deeper = tmp_path / "train" / "ant" / "monday" / "x.JPG"
    deeper.parent.mkdir()
    deeper.write_bytes(b"")
    assert list_images(tmp_path) == [
        Listed("test/ant/2000.png", "ant", "test"),
        Listed("test/bee/1000.png", "bee", "test"),
        Listed("train/ant/1000.png", "ant", "train"),
        Listed("train/ant/monday/x.JPG", "ant", "train"),
        Listed("train/bee/2000.png", "bee", "train"),
    ]


def test_what_is_hidden_or_no_image_is_passed_over(tmp_path: Path):
    write_folder(tmp_path, "ant", "bee", "ant/.hidden/cat", ".hidden/cat", each=1)
    (tmp_path / "ant").rename(tmp_path / "a")
    (tmp_path / "notes.txt").write_text("beside the classes")
    assert [image.name for image in list_images(tmp_path)] == ["a/1000.png", "bee/2000.png"]


def test_one_folder_leaves_the_split_open(tmp_path: Path):
    found = list_images(write_folder(tmp_path / "one", "ant", "cat", each=2))
    assert [(image.label, image.split, image.client) for image in found] == [("ant", "", "")] * 2 + [
        ("cat", "", "")
    ] * 2
    assert {
        image.split for image in list_images(write_folder(tmp_path / "two", "train/ant", "train/bee"))
    } == {""}


def test_clients_have_folders_of_their_own(tmp_path: Path):
    write_folder(tmp_path, "clients/north/ant", "clients/north/bee", "clients/south/bee", each=1)
    write_folder(tmp_path, "test/ant", "test/bee", each=1)
    (tmp_path / "clients" / "south" / "ant").mkdir()  # a client need not have all classes
    assert [image[1:] for image in list_images(tmp_path)] == [
        ("ant", "train", "north"),
        ("bee", "train", "north"),
        ("bee", "train", "south"),
        ("ant", "test", ""),
        ("bee", "test", ""),
    ]


FOLDERS = {
    "nothing": ([], [], "it has no folders of classes, expected train/CLASS"),
    "no class": (["train"], ["train/a.png"], "train: it has no folders of classes"),
    "a stray image": (["ant", "bee"], ["ant/a.png", "bee/b.png", "c.png"], "c.png lies beside the folders"),
    "an empty class": (["ant", "bee"], ["ant/a.png"], "bee: it has no images"),
    "a test without train": (["test", "ant"], [], "it has test but no train, expected train/CLASS"),
    "a validation alone": (["Val", "ant"], [], "it has Val but no train"),
    "two kinds": (["train", "clients"], [], "it has both train and clients"),
    "no client": (["clients"], [], "clients: it has no folders of clients, expected clients/CLIENT/CLASS"),
    "a client without classes": (["clients/north"], [], "north: it has no folders of classes"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_that_can_be_misread_is_refused(tmp_path: Path, case: str):
    folders, files, sentence = FOLDERS[case]
    for name in folders:
        (tmp_path / name).mkdir(parents=True)
    for name in files:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=sentence) as caught:
        list_images(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))


def write_table(folder: Path, text: str) -> Path:
    write_folder(folder, "ant", "bee", each=2)
    (folder / "images.csv").write_text(text, encoding="utf-8-sig")
    return folder / "images.csv"


def test_a_table_names_images_labels_and_whatever_else_is_known(tmp_path: Path):
    table = write_table(
        tmp_path,
        "label, path ,client,split,age\nx,ant/1000.png,north,train,3\ny,bee/2000.png,,TEST,4\n"
        "y,bee/2001.png,south,train,\n",
    )
    assert list_images(table) == [
        Listed("ant/1000.png", "x", "train", "north"),
        Listed("bee/2000.png", "y", "test", ""),
        Listed("bee/2001.png", "y", "train", "south"),
    ]


TABLES = {
    "no label": ("path,class\nant/1000.png,x", "it has no column label, but path, class"),
    "empty": ("", "it has no column path, but is empty"),
    "no rows": ("path,label\n", "it names no images"),
    "no name": ("path,label\nant/1000.png,x\n,y", "line 3 has no path"),
    "no class": ("path,label\nant/1000.png,\n", "line 2 has no label"),
    "another split": (
        "path,label,split\nant/1000.png,x,val",
        "line 2 has the split 'val', expected train or test",
    ),
    "half a split": ("path,label,split\nant/1000.png,x,", "line 2 has the split '', expected train or test"),
    "no client": ("path,label,client\nant/1000.png,x,", "line 2 has no client"),
    "twice": ("path,label\nant/1000.png,x\nant/1000.png,y", r"line 3 names ant/1000\.png a second time"),
    "one not there": (
        "path,label\nant/1.png,x\nant/1000.png,x",
        r"it names what is not there: ant/1\.png \(paths begin in ",
    ),
    "not there": (
        "path,label\nant/1.png,x\nbee/1.png,y\nant/1000.png,x",
        r"it names what is not there: ant/1\.png and 1 more \(paths begin in ",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_what_is_wrong_in_a_table_is_one_sentence(tmp_path: Path, case: str):
    text, sentence = TABLES[case]
    table = write_table(tmp_path, text)
    with pytest.raises(DataError, match=sentence) as caught:
        list_images(table)
    assert str(caught.value).startswith(str(table))


def test_a_table_that_is_no_text(tmp_path: Path):
    (tmp_path / "images.csv").write_bytes(b"path,label\n\xff\xfe,x\n")
    with pytest.raises(DataError, match=r"images\.csv: it is not a CSV file in UTF-8"):
        list_images(tmp_path / "images.csv")


def test_a_folder_that_is_gone(tmp_path: Path):
    with pytest.raises(DataError, match=r"gone: cannot be read: No such file or directory"):
        list_images(tmp_path / "gone")
