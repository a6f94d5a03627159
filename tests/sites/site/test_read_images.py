"""Reading a site's images: folders and archives, and everything that can be wrong with them."""

import errno
import hashlib
import io
import json
import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from fedactive.errors import DataError
from fedactive.sites.site import read_images as reading
from fedactive.sites.site.image_files import stamp
from fedactive.sites.site.image_pool import GoneError, Report
from fedactive.sites.site.read_images import read_images

SHAPE = (3, 8, 8)


def picture(seed, size=(8, 8), mode="RGB"):
    rng = np.random.default_rng(seed)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    return Image.fromarray(rng.integers(256, size=shape, dtype=np.uint8))


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "images"
    (root / "ward b").mkdir(parents=True)
    picture(1).save(root / "b.png")
    picture(2).save(root / "a.PNG")
    picture(3, (20, 20), "L").save(root / "ward b" / "c.jpeg", quality=95)
    return root


def test_a_folder_is_read_in_order_of_names(folder):
    pool = read_images(folder, SHAPE)
    assert pool.names == ("a.PNG", "b.png", "ward b/c.jpeg")
    assert pool.pixels.shape == (3, *SHAPE)
    assert pool.pixels.dtype == np.uint8
    assert (pool.pixels[0] == np.asarray(picture(2)).transpose(2, 0, 1)).all()
    assert pool.report.sentences() == []


def test_names_that_are_no_text_can_be_shown(folder):
    os.rename(folder / "b.png", os.fsencode(folder) + b"/caf\xe9.png")
    (folder / "z.png").write_bytes((folder / "caf\udce9.png").read_bytes())
    pool = read_images(folder, SHAPE)
    assert pool.names == ("a.PNG", "caf\udce9.png", "ward b/c.jpeg")
    assert pool.report.sentences() == ["z.png is left out: the same picture as caf\\udce9.png"]


def test_people_see_the_original(folder):
    pool = read_images(folder, (1, 4, 4))
    assert pool.picture(1) == ((folder / "b.png").read_bytes(), "image/png")
    assert pool.picture(2) == ((folder / "ward b" / "c.jpeg").read_bytes(), "image/jpeg")
    for sample in (-1, 3):
        with pytest.raises(DataError, match="there is no image"):
            pool.picture(sample)


def test_what_cannot_be_used_is_named(folder):
    (folder / "broken.png").write_bytes((folder / "b.png").read_bytes()[:60])
    (folder / "text.jpg").write_text("not a picture")
    (folder / "notes.txt").write_text("hello")
    (folder / "z.png").write_bytes((folder / "b.png").read_bytes())
    (folder / ".hidden.png").write_text("resource fork")
    (folder / ".Trash" / "deeper").mkdir(parents=True)
    picture(8).save(folder / ".Trash" / "deeper" / "thrown away.png")
    pool = read_images(folder, SHAPE)
    assert pool.names == ("a.PNG", "b.png", "ward b/c.jpeg")
    assert [name for name, _ in pool.report.unreadable] == ["broken.png", "text.jpg"]
    assert pool.report.duplicates == (("z.png", "b.png"),)
    assert pool.report.sentences()[1:] == [
        "text.jpg is left out: it is not a PNG or JPEG image",
        "z.png is left out: the same picture as b.png",
        "1 file is left out: not .png, .jpg, .jpeg, .dcm, .dicom",
    ]


def test_the_same_pixels_in_another_file_are_a_duplicate(folder):
    picture(1).save(folder / "b2.png", compress_level=0)
    assert read_images(folder, SHAPE).report.duplicates == (("b2.png", "b.png"),)


def with_palette(colours):
    """The same numbers of colours at the same places, whatever the colours."""
    image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) % len(colours))
    image.putpalette(np.ravel(colours).tolist())
    return image


RED, BLUE, GREEN = (255, 0, 0), (0, 0, 255), (0, 255, 0)


def test_pictures_with_a_palette_differ_by_what_one_sees(tmp_path):
    with_palette([RED, BLUE]).save(tmp_path / "a.png")
    with_palette([RED, GREEN]).save(tmp_path / "b.png")
    with_palette([RED, BLUE]).save(tmp_path / "c.png", transparency=0)
    with_palette([RED, BLUE]).save(tmp_path / "d.png", transparency=bytes([128, 255]))
    with_palette([RED, BLUE]).save(tmp_path / "e.png", transparency=bytes([128, 64]))
    assert read_images(tmp_path, SHAPE).report.duplicates == ()
    with_palette([RED, BLUE]).convert("RGB").save(tmp_path / "colours.png")
    unused = with_palette([RED, GREEN])
    unused.putpalette([*RED, *GREEN, *BLUE])
    unused.save(tmp_path / "unused colour.png")
    assert read_images(tmp_path, SHAPE).report.duplicates == (
        ("colours.png", "a.png"),
        ("unused colour.png", "b.png"),
    )


def test_what_one_does_not_see_is_not_trained_on(tmp_path):
    diagonal = np.eye(8, dtype=np.uint8)
    for mode in ("L", "RGB"):
        image = Image.new(mode, (8, 8), "white")
        image.putalpha(Image.fromarray(100 * diagonal))
        image.save(tmp_path / f"{mode}.png")
    two_colours = Image.fromarray(diagonal)
    two_colours.putpalette([255, 255, 255, 100, 100, 100])
    two_colours.save(tmp_path / "palette.png", transparency=0)
    pixels = read_images(tmp_path, (1, 8, 8)).pixels
    assert np.array_equal(pixels, np.broadcast_to(100 * diagonal, (3, 1, 8, 8)))


def test_what_is_known_of_pictures_without_a_palette_stays_known(tmp_path):
    """Sites remember these, and do not start where a picture is another one."""
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    for mode in ("L", "RGB", "RGBA"):
        grey.convert(mode).save(tmp_path / f"{mode}.png")
    assert [digest[:8] for digest in read_images(tmp_path, SHAPE).digests] == [
        "2ab47d3b",
        "e5e0bdc2",
        "3ccfbabd",
    ]


def test_links_that_lead_out_are_refused(folder, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    picture(9).save(outside / "secret.png")
    (folder / "out.png").symlink_to(outside / "secret.png")
    (folder / "out").symlink_to(outside)
    (folder / "nowhere.png").symlink_to(folder / "gone.png")
    (folder / "circle.png").symlink_to(folder / "circle.png")
    (folder / "inside.png").symlink_to(folder / "b.png")
    pool = read_images(folder, SHAPE)
    assert pool.report.sentences()[:4] == [
        "circle.png is left out: a link that leads nowhere",
        "nowhere.png is left out: a link that leads nowhere",
        "out is left out: a link that leads out of the folder",
        "out.png is left out: a link that leads out of the folder",
    ]
    assert pool.report.duplicates == (("inside.png", "b.png"),)


def test_a_file_that_becomes_a_link_later_is_not_shown(folder, tmp_path):
    pool = read_images(folder, SHAPE)
    picture(9).save(tmp_path / "secret.png")
    (folder / "b.png").unlink()
    with pytest.raises(DataError, match=r"cannot read b\.png: No such file"):
        pool.picture(1)
    for nowhere in ("gone.png", "b.png"):
        (folder / "b.png").symlink_to(folder / nowhere)
        with pytest.raises(DataError, match=r"b\.png leads nowhere"):
            pool.picture(1)
        (folder / "b.png").unlink()
    (folder / "b.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(DataError, match=r"b\.png leads out of the folder"):
        pool.picture(1)
    (folder / "a.PNG").write_text("<svg onload='alert(1)'>")
    with pytest.raises(GoneError, match=r"a.PNG is another picture than before"):
        pool.picture(0)


def test_an_empty_pool_is_told(tmp_path):
    with pytest.raises(DataError, match=r"no image that can be used .*: it is empty"):
        read_images(tmp_path, SHAPE)
    (tmp_path / "text.jpg").write_text("not a picture")
    with pytest.raises(DataError, match=r"text\.jpg is left out: it is not a PNG or JPEG image"):
        read_images(tmp_path, SHAPE)
    with pytest.raises(DataError, match="there is no such folder"):
        read_images(tmp_path / "gone", SHAPE)


@pytest.mark.parametrize("closed", ["images/ward b", "images"])
def test_a_folder_that_cannot_be_read_is_an_error(folder, tmp_path, monkeypatch, closed):
    def scandir(path, scandir=os.scandir):  # as for a user without permission, which root would have
        if os.fspath(path) == str(tmp_path / closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=rf"^cannot read .*{closed}: Permission denied$"):
        read_images(folder, SHAPE)


def test_pictures_keep_their_proportions(tmp_path):
    Image.new("RGB", (40, 20), "white").save(tmp_path / "wide.png")
    pixels = read_images(tmp_path, (1, 8, 8)).pixels[0, 0]
    assert (pixels[2:6] == 255).all()
    assert (pixels[:2] == 0).all()
    assert (pixels[6:] == 0).all()


@pytest.mark.parametrize("size", [(4000, 20), (20, 4000)])
def test_of_a_long_strip_a_line_is_seen(tmp_path, size):
    """Training saw black."""
    Image.new("RGB", size, "white").save(tmp_path / "strip.png")
    pixels = read_images(tmp_path, (1, 8, 8)).pixels[0, 0]
    assert (pixels == 255).sum() == 8


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    Image.fromarray(np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)).save(tmp_path / "x.png")
    pixels = read_images(tmp_path, (1, 8, 8)).pixels[0, 0].ravel()
    assert abs(pixels.astype(float) - np.linspace(0, 255, 64)).max() < 1.5


def test_a_turned_photo_is_upright(tmp_path):
    image = picture(4, (6, 8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image.save(tmp_path / "x.png", exif=exif)
    assert (
        read_images(tmp_path, (3, 6, 8)).pixels[0] == np.rot90(np.asarray(image), -1).transpose(2, 0, 1)
    ).all()


@pytest.mark.parametrize("held", range(1, 9))
def test_a_photo_is_turned_however_the_camera_was_held(tmp_path, held):
    exif = Image.Exif()
    exif[0x0112] = held
    picture(5, (6, 8)).save(tmp_path / "x.png", exif=exif)
    with Image.open(tmp_path / "x.png") as image:
        upright = np.asarray(ImageOps.exif_transpose(image)).transpose(2, 0, 1)
    assert (read_images(tmp_path, upright.shape).pixels[0] == upright).all()


def test_a_turned_photo_with_odd_notes_of_the_camera_is_a_picture_like_any(tmp_path):
    """One such file kept a site from starting."""
    exif = Image.Exif()
    exif[0x0112], exif[0x0100] = 6, 640  # its width
    image = picture(4, (6, 8))
    image.save(tmp_path / "x.jpg", exif=exif, quality=100)
    content = (tmp_path / "x.jpg").read_bytes()
    number, text = b"\x01\x00\x00\x04", b"\x01\x00\x00\x02"  # the width as a number, and as text
    assert content.count(number) == 1
    (tmp_path / "x.jpg").write_bytes(content.replace(number, text))
    pool = read_images(tmp_path, (3, 6, 8))
    assert pool.names == ("x.jpg",)
    assert pool.report == Report()


def test_a_bomb_is_left_out(folder, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    report = read_images(folder, SHAPE).report
    assert report.unreadable == (("ward b/c.jpeg", "it is too large"),)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_archive_is_read_exactly(tmp_path, channels):
    size = (5, 8, 8) if channels == 1 else (5, 8, 8, 3)
    array = np.random.default_rng(0).integers(256, size=size, dtype=np.uint8)
    array[3] = array[1]
    np.savez(tmp_path / "x.npz", train_images=array, train_labels=np.zeros(5))
    pool = read_images(tmp_path / "x.npz", (channels, 8, 8))
    assert pool.names == tuple(f"train_images[{k}]" for k in (0, 1, 2, 4))
    assert pool.report.duplicates == (("train_images[3]", "train_images[1]"),)
    content, kind = pool.picture(3)
    assert kind == "image/png"
    assert (np.asarray(Image.open(io.BytesIO(content))) == array[4]).all()
    assert (pool.pixels[3] == array[4].reshape(8, 8, channels).transpose(2, 0, 1)).all()


def test_a_wrong_archive_is_told(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, images=np.zeros(3))
    with pytest.raises(DataError, match="train_images is missing"):
        read_images(path, SHAPE)
    np.savez(path, train_images=np.zeros((3, 8, 8)))
    with pytest.raises(DataError, match="float64"):
        read_images(path, SHAPE)
    np.savez(path, train_images=np.array([{}], object))
    with pytest.raises(DataError, match="cannot be read"):
        read_images(path, SHAPE)
    path.write_text("holiday")
    with pytest.raises(DataError, match=r"x.npz: not an \.npz archive"):
        read_images(path, SHAPE)
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(DataError, match="damaged"):
        read_images(path, SHAPE)


def test_what_an_earlier_version_kept_is_decoded_anew(folder, tmp_path):
    cache = tmp_path / "cache.npz"
    pixels = read_images(folder, SHAPE, cache).pixels
    known = [(name, *stamp(folder / name)) for name in ("a.PNG", "b.png", "ward b/c.jpeg")]
    key = hashlib.sha256(json.dumps([SHAPE, known, [], 0]).encode()).hexdigest()  # as it was once
    facts = json.loads(np.load(cache)["facts"].tobytes()) | {"key": key}
    del facts["manner"], facts["files"]
    np.savez(cache, pixels=255 - pixels, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8))
    assert np.array_equal(read_images(folder, SHAPE, cache).pixels, pixels)


def test_a_folder_is_decoded_once(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache.npz"
    (folder / "text.jpg").write_text("not a picture")
    (folder / "z.png").write_bytes((folder / "b.png").read_bytes())
    first = read_images(folder, SHAPE, cache)

    def never(*_):
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(reading, "decode", never)
        again = read_images(folder, SHAPE, cache)
    assert (again.names, again.report) == (first.names, first.report)
    assert (again.pixels == first.pixels).all()
    assert read_images(folder, (1, 8, 8), cache).pixels.shape[1] == 1
    picture(7).save(folder / "b.png")
    os.utime(folder / "b.png", ns=(1, 1))
    assert read_images(folder, SHAPE, cache).report.duplicates == ()
    cache.write_bytes(b"damaged")
    assert len(read_images(folder, SHAPE, cache)) == 4
