"""What a site says about its classes."""

import io

import pytest
from PIL import Image

from fedactive.errors import DataError, UserError
from fedactive.sites.page.guide import AboutClass, by_group
from fedactive.sites.site.guide import read_guide

CLASSES = ("cat", "dog", "horse")


def test_a_guide_has_groups_definitions_and_pictures(tmp_path):
    Image.new("RGB", (2000, 1000), "red").save(tmp_path / "rex.jpg", comment="Doe, John")
    (tmp_path / "guide.toml").write_text(
        '[dog]\ngroup = "pets"\ndefinition = "It barks."\nexamples = ["rex.jpg"]\n[horse]\ngroup = "farm"\n'
    )
    guide = read_guide(tmp_path / "guide.toml", CLASSES)
    assert (guide[0], guide[2]) == (AboutClass(), AboutClass("farm"))
    assert (guide[1].group, guide[1].definition) == ("pets", "It barks.")
    ((content, kind),) = guide[1].examples
    picture = Image.open(io.BytesIO(content))
    assert (kind, picture.size, picture.info) == ("image/png", (512, 256), {})
    keys = [("1", "cat"), ("2", "dog"), ("3", "horse")]
    assert by_group(keys, guide) == {
        "": [(0, "1", "cat")],
        "pets": [(1, "2", "dog")],
        "farm": [(2, "3", "horse")],
    }
    assert by_group(keys, ()) == {"": [(0, "1", "cat"), (1, "2", "dog"), (2, "3", "horse")]}


def test_without_a_file_there_is_none(tmp_path):
    assert read_guide(tmp_path / "guide.toml", CLASSES) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[cow]\n", "cow"),
        ("[dog]\ncolour = 'brown'\n", "colour"),
        ("[dog]\ngroup = 3\n", "dog.group is 3, allowed is a text"),
        ("[dog]\nexamples = 'rex.jpg'\n", "dog.examples is 'rex.jpg', allowed is a list of files"),
        ("dog = 3\n", "dog is no table"),
        ("[dog\n", "is no TOML"),
        ("[dog]\nexamples = ['gone.png']\n", "gone.png cannot be shown: it cannot be read"),
    ],
)
def test_mistakes_are_told(tmp_path, text, message):
    (tmp_path / "guide.toml").write_text(text)
    with pytest.raises((UserError, DataError), match=message):
        read_guide(tmp_path / "guide.toml", CLASSES)
