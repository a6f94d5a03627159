"""The picture on the labelling page in a real browser: loading, zooming, windows, the last answers."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from PIL import Image

from fedactive.sites.page.guide import AboutClass
from fedactive.sites.site.read_images import read_images
from support.browser import missing
from support.labelling import done, shown
from support.small_images import make_folder

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
VIEW = "return image.style.transform.match(/-?[0-9.]+/g).map(Number)"  # x, y, zoom
BOX = "return document.querySelector('.picture').getBoundingClientRect().toJSON()"
GREYS = """
const {width, height} = image, copy = new OffscreenCanvas(width, height).getContext("2d", {willReadFrequently: true});
copy.drawImage(image, 0, 0);
const {data} = copy.getImageData(0, 0, width, height);
return Array.from({length: width * height}, (_, k) => data[4 * k]);
"""


class Slow:
    """Pictures that come when they may."""

    def __init__(self, images):
        self.images = images
        self.may_come = threading.Event()

    def __getattr__(self, name):
        return getattr(self.images, name)

    def __len__(self):
        return len(self.images)

    def picture(self, sample, window=None):
        assert self.may_come.wait(20)
        return self.images.picture(sample, window)


@pytest.fixture
def deep(site, tmp_path):
    """Pictures of 12 bits in PNG files of 16, 16 x 12 pixels."""
    folder = tmp_path / "deep"
    folder.mkdir()
    values = np.arange(16 * 12).reshape(12, 16) * 4095 // 191
    for k in range(4):
        Image.fromarray((values // (k + 1)).astype(np.uint16)).save(folder / f"{k}.png")
    site.show(read_images(folder, (1, 8, 8)))
    site.store.rounds.open("run", 1, range(4), "logo", None)
    return values


def test_nothing_is_answered_before_the_picture_is_there(site, browse):
    images = Slow(site.images)
    images.may_come.set()
    site.show(images)
    site.store.rounds.open("run", 1, range(20), "logo", None)
    ada = browse(site, "ada")
    ada.wait(
        "performance.getEntriesByType('resource').filter(one => one.name.includes('/images/')).length >= 8"
    )
    images.may_come.clear()
    ada.press("1", "2", "1", "2", "1", "2", "1", "2")  # these pictures are there already, without asking
    done(ada, 8)
    assert shown(ada) == 8
    ada.press_at_once("1", "2", "f")
    assert "Wait for the picture" in ada.run("return document.getElementById('status').textContent")
    assert ada.run("return getComputedStyle(document.querySelector('.spinner')).display") == "block"
    assert ada.run("return Object.values(sessionStorage).join()") == "[]"
    images.may_come.set()
    ada.press("3")
    done(ada, 9)
    assert ada.run("return getComputedStyle(document.querySelector('.spinner')).display") == "none"
    assert site.store.labels() == {k: k % 2 for k in range(8)} | {8: 2}
    assert len(site.store.answers.events("1")) == 9


def test_of_a_picture_that_does_not_come_one_can_say_so_and_it_is_asked_for_again(site, browse, tmp_path):
    site.store.rounds.open("run", 1, [3, 99, 5], "logo", None)  # there is no image 99
    ada = browse(site, "ada")
    ada.press("1")
    ada.wait("document.getElementById('which').textContent.startsWith('This image cannot be shown')")
    ada.press_at_once("1")
    assert "Wait for the picture" in ada.run("return document.getElementById('status').textContent")
    asked = "performance.getEntriesByType('resource').filter(one => one.name.endsWith('/images/99')).length"
    ada.wait(f"{asked} > 1")
    ada.press_at_once("f")
    ada.press("2")
    ada.wait("document.body.innerText.includes('Round 1 is done')")
    assert site.store.labels() == {3: 0, 5: 1}
    assert site.store.counts("run", 1).flagged == 1


def test_zoom_is_at_the_pointer_stays_for_the_next_picture_and_never_leaves_it(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.wait("!document.querySelector('#stage[aria-busy]')")
    box = ada.run(BOX)
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    wheel = {"type": "mouseWheel", "x": middle[0] + 150, "y": middle[1] + 50, "deltaX": 0, "deltaY": -100}
    for _ in range(8):
        ada.chromium("Input.dispatchMouseEvent", wheel)
    ada.wait("image.style.transform.includes('scale(3')")
    x, y, zoom = ada.run(VIEW)
    assert (x, y) == pytest.approx((150 * (1 - zoom), 50 * (1 - zoom)), abs=zoom)  # the place under it stays
    view = ada.run(VIEW)
    ada.press("1")
    assert shown(ada) == 1
    assert ada.run(VIEW) == view
    for _ in range(30):
        ada.press_at_once("Shift+Left", "Shift+Up")
    most = (box["height"] * (zoom - 1) / 2,) * 2  # a square picture: its edge is where it was
    assert ada.run(VIEW)[:2] == pytest.approx(most, abs=1)
    drag = [{"type": "pointerMove", "x": int(middle[0]), "y": int(middle[1])}, {"type": "pointerDown"}]
    drag += [
        {"type": "pointerMove", "x": int(middle[0]) - 60, "y": int(middle[1]) - 40},
        {"type": "pointerUp"},
    ]
    ada.act(*drag)
    assert ada.run(VIEW)[:2] == pytest.approx((most[0] - 60, most[1] - 40), abs=1)
    ada.act(
        {"type": "pointerMove", "x": int(middle[0]) + 30, "y": int(middle[1])},
        {"type": "pointerDown"},
        {"type": "pointerUp"},
    )
    assert ada.run(VIEW)[0] == pytest.approx(most[0] - 90, abs=1)  # a click brings a place into the middle
    ada.press("Escape")
    assert ada.run(VIEW) == [0, 0, 1]


def test_two_fingers_zoom_the_picture_and_not_the_page(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada", width=390, height=844)
    ada.wait("!document.querySelector('#stage[aria-busy]')")
    box = ada.run(BOX)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, apart in (("touchStart", 20), ("touchMove", 30), ("touchMove", 60)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        ada.chromium("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    ada.chromium("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert ada.run(VIEW)[2] == pytest.approx(3, rel=0.05)
    assert ada.run("return visualViewport.scale") == 1


def test_a_deep_picture_is_shown_in_full_and_in_any_window(site, browse, deep):
    site.store.rounds.set_window("run", (1000, 500))
    ada = browse(site, "ada")
    ada.wait("document.querySelector('canvas#image') && !document.querySelector('#stage[aria-busy]')")
    seen = (deep - 750) * 255 // 500
    assert ada.run(GREYS) == seen.clip(0, 255).ravel().tolist()  # as in training
    ada.press("w")
    assert ada.run("return preset.value") == "Picture’s own"
    assert ada.run(GREYS) == (deep * 255 // 4095).ravel().tolist()
    ada.press(".", ":")
    level, width = ada.run(
        "return document.getElementById('window').textContent.match(/[0-9.]+/g).map(Number)"
    )
    assert width == pytest.approx(4095 / 1.25, rel=1e-3)
    assert level < 2047.5
    ada.press("1")
    ada.press("2")  # the window stays for the next picture
    assert ada.run("return preset.value") == "Picture’s own"
    ada.press("Escape")
    assert ada.run("return preset.value") == "As in training"
    box = ada.run(BOX)
    x, y = int(box["x"] + box["width"] / 2), int(box["y"] + box["height"] / 2)
    ada.act(
        {"type": "pointerMove", "x": x, "y": y},
        {"type": "pointerDown", "button": 2},
        {"type": "pointerMove", "x": x + 80, "y": y},
        {"type": "pointerUp", "button": 2},
    )
    assert "level 1000, width 335" in ada.run("return document.getElementById('window').textContent")
    assert ada.console() == []


def test_the_last_answers_are_in_view_and_one_key_leads_to_each(site, browse):
    site.store.rounds.open("run", 1, range(20), "logo", None)
    ada = browse(site, "ada")
    ada.press("1", "2", "3", "f", "1")
    done(ada, 5)
    names = "[...document.querySelectorAll('#last bdi')].map(one => one.textContent).join()"
    ada.wait(f"{names} === 'circle,flagged,cross,square,circle'")
    ada.press("Shift+3")  # whatever sign it writes
    assert shown(ada) == 2
    ada.press("4")
    done(ada, 5)
    ada.wait("sessionStorage.length === 0 || Object.values(sessionStorage).every(one => one === '[]')")
    assert site.store.labels() == {0: 0, 1: 1, 2: 3, 4: 0}
    ada.reload()
    ada.wait(f"{names} === 'none of these,circle,flagged,square,circle'")
    ada.wait("[...document.querySelectorAll('#last canvas')].every(one => one.width === 44)")
    ada.click("[data-back='4']")
    assert shown(ada) == 1


def test_a_flag_has_a_comment(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada", reviewer=True)
    ada.press("Shift+f")
    ada.type("#comment-text", "1: not a patient")  # labels nothing
    ada.press_at_once("Enter")
    done(ada, 1)
    ada.press("Left")
    ada.wait("document.getElementById('which').textContent.includes('flagged (1: not a patient)')")
    ada.go(site.address + "/overview")
    assert "1: not a patient" in ada.text()
    (event,) = site.store.answers.events("1")
    assert (event.action, event.comment) == ("flag", "1: not a patient")


MANY = tuple(
    f"Disease of the {where}, stage {k}" for where in ("lung", "liver", "épidermis") for k in range(40)
)


@pytest.mark.parametrize("classes", [MANY])
def test_any_of_many_classes_is_found_by_typing(site, browse, classes):
    site.desk(guide=tuple(AboutClass(group=name.split()[3]) for name in classes))
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.press("/")
    ada.type("#search", "epi 1")
    seen = "[...document.querySelectorAll('#classes > :not([hidden])')].map(one => one.innerText.trim())"
    assert ada.run(f"return {seen}.length") == 1 + 11  # a group, stages 1 and 10 to 19
    ada.press_at_once("Down", "Enter")
    done(ada, 1)
    assert site.store.labels() == {0: classes.index("Disease of the épidermis, stage 10")}
    ada.press("/", "Escape")
    assert ada.run(f"return {seen}.length") == 3 + len(classes)
    ada.press("2")  # keys answer again
    done(ada, 2)


GROUPED = {"Pleura": ("Atelectasis", "Effusion"), "Lung": ("Pleural thickening", *map(str, range(20, 30)))}


@pytest.mark.parametrize("classes", [tuple(name for names in GROUPED.values() for name in names)])
def test_a_name_that_fits_is_chosen_before_one_whose_group_does(site, browse, classes):
    site.desk(guide=tuple(AboutClass(group=group) for group, names in GROUPED.items() for _ in names))
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    for k, (typed, found) in enumerate((("pl", "Pleural thickening"), ("pleura eff", "Effusion"))):
        ada.press("/")
        ada.type("#search", typed)
        ada.press_at_once("Enter")
        done(ada, k + 1)
        assert site.store.labels()[k] == classes.index(found)


@pytest.mark.parametrize("classes", [("benign", "malignant")])
def test_definitions_have_pictures(site, browse, classes):
    site.desk(guide=(AboutClass("", "harmless", (site.images.picture(7),)), AboutClass()))
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.press("d")
    ada.wait(
        "document.getElementById('guide').open && document.querySelector('.guide img').naturalWidth === 24"
    )
    assert "harmless" in ada.text()
    assert ada.run("return fetch('/guide/1/0').then(answer => answer.status)") == 404


def test_single_keys_can_be_turned_off(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.press("?")
    ada.click("#single-keys")
    ada.press("Escape", "1", "f")
    ada.click("[data-label='2']")
    done(ada, 1)
    assert site.store.labels() == {0: 2}
    ada.run("localStorage.clear()")


def test_images_stay_with_who_is_there_and_go_to_others_after_a_minute(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    sooner = """
        const every = setInterval, now = performance.now.bind(performance);
        window.setInterval = (what, ms) => every(what, ms / 50);
        performance.now = () => 50 * now();
        window.asked = 0;
        const ask = fetch;
        window.fetch = (...what) => { asked += String(what[0]).startsWith("/api/next"); return ask(...what); };
    """
    ada = browse(site, "ada")
    added = ada.chromium("Page.addScriptToEvaluateOnNewDocument", {"source": sooner})
    ada.reload()
    ada.press("+")
    ada.wait("window.asked > 0")
    time.sleep(1.5)  # 75 of its seconds without a word of hers
    count = ada.run("return window.asked")
    time.sleep(0.8)
    assert ada.run("return window.asked") == count
    site.store.rounds.open("run", 2, [30, 31], "logo", None)  # meanwhile
    ada.press_at_once("+")
    ada.wait(f"window.asked > {count}")  # she is back, and what is on the screen is still hers
    assert shown(ada) == 0
    ada.chromium("Page.removeScriptToEvaluateOnNewDocument", added)


# ------------------------------------------------------------------------------------------ pictures that go


def test_a_picture_that_is_gone_leaves_the_screen(site, browse, tmp_path):
    images = make_folder(tmp_path / "pool", "a.png", "b.png")
    site.show(images)
    site.store.rounds.open("run", 1, [0, 1], "logo", None)
    (tmp_path / "pool" / "a.png").unlink()
    ada = browse(site, "ada")
    ada.wait("document.getElementById('which').textContent.startsWith('This image cannot be shown')")
    site.store.images.update(images.digests, {0})  # what the site does when it looks for the picture
    ada.wait("document.getElementById('image').dataset.image === '/images/1'")
    ada.wait("!document.getElementById('stage').hasAttribute('aria-busy')")
    ada.press("1")
    ada.wait("document.getElementById('wait')")
    assert site.store.labels() == {1: 0}
