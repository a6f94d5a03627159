"""The page in a real browser: keys, undo, reload, several people, the end of a round."""

import json
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from PIL import Image

from fedactive.sites.labels.rounds import Counts
from fedactive.sites.site.read_images import read_images
from support.browser import missing
from support.labelling import done, shown

# Of ChestX-ray14, and one that is longer than any screen is wide.
CHEST = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia"),
    *("Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax", "No finding"),
    "Pneumonoultramicroscopicsilicovolcanoconiosis",
)
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
# How long from a key to the next image, complete, in the document.
MEASURE = """
window.delays = [];
addEventListener("keydown", () => { window.pressed = performance.now(); }, true);
new MutationObserver(() => {
  const image = document.getElementById("image"), {pressed} = window;
  const there = () => window.delays.push(performance.now() - pressed);
  if (image.complete && image.naturalWidth) there(); else image.addEventListener("load", there);
}).observe(document.querySelector(".picture"), {childList: true});
"""
SAVED = "sessionStorage.length === 0 || Object.values(sessionStorage).every(one => one === '[]')"


@contextmanager
def offline(browser):
    """The site does not answer this browser."""
    network = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.chromium("Network.enable", {})
    browser.chromium("Network.emulateNetworkConditions", network)
    yield
    browser.chromium("Network.emulateNetworkConditions", network | {"offline": False})


def test_a_round_from_the_first_key_to_the_last(site, browse):
    site.store.rounds.open("run", 1, range(32), "logo", datetime.now(UTC) + timedelta(hours=2))
    ada = browse(site, "ada")
    assert shown(ada) == 0
    ada.wait("document.getElementById('image').complete")
    ada.run(MEASURE)
    for sample in range(30):
        assert shown(ada) == sample
        time.sleep(0.1)  # nobody is faster
        ada.press(str(sample % 3 + 1))
    done(ada, 30)
    assert site.store.labels() == {sample: sample % 3 for sample in range(30)}
    delays = sorted(ada.run("return window.delays"))
    assert len(delays) == 30
    assert delays[26] < 50  # milliseconds; a few may have met a busy machine

    # Undo, also after a reload, and answer anew.
    ada.press("Backspace")
    done(ada, 29)
    assert shown(ada) == 29
    ada.reload()
    done(ada, 29)
    for left in (28, 27):
        ada.press("Backspace")
        done(ada, left)
        assert shown(ada) == left
    assert sorted(site.store.labels()) == list(range(27))
    for key in ("4", " ", "f"):
        ada.press(key)
    done(ada, 30)
    assert site.store.labels()[27] == 3
    assert site.store.counts("run", 1) == Counts(32, 28, 1, 1, 2)

    # Somebody else has a queue of their own: here, nothing, for ada holds the rest.
    bob = browse(site, "bob")
    assert "Your part is done" in bob.text()
    site.store.annotators.remove("ada")
    bob.wait("document.getElementById('work')")  # the waiting page goes on by itself
    assert shown(bob) == 30
    bob.press("1", "2")
    bob.wait("document.body.innerText.includes('Round 1 is done')")
    assert site.store.counts("run", 1) == Counts(32, 30, 1, 1, 0)

    # The end of the round, and the next one.
    site.store.rounds.close("run", 1)
    bob.wait("document.body.innerText.includes('Round 1 is closed')")
    site.store.rounds.open("run", 2, [40], "logo", None)
    bob.wait("document.getElementById('work')")
    assert shown(bob) == 40
    assert ada.console() == bob.console() == []


def test_browsing_and_changing_an_earlier_answer(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.press("1", "2", "3")
    done(ada, 3)
    ada.reload()
    assert shown(ada) == 3
    ada.wait(
        "document.getElementById('status') && performance.getEntriesByName(location.origin + '/api/history?count=200').length"
    )
    ada.press("Left", "Left")
    ada.wait("document.getElementById('which').textContent.includes('you said: square')")
    assert shown(ada) == 1
    assert ada.run("return document.querySelector('[aria-pressed=true]').innerText").split()[-2:] == [
        "square",
        "✓",
    ]
    ada.press("4")
    ada.wait(SAVED)
    assert site.store.labels() == {0: 0, 1: 3, 2: 2}
    assert shown(ada) == 2
    ada.press("Right")
    assert shown(ada) == 3
    ada.press("Backspace")  # the last thing done was the change of image 1, whose first answer stands again
    ada.wait("document.getElementById('status').textContent.startsWith('Undone')")
    assert site.store.labels() == {0: 0, 1: 1, 2: 2}


def test_mouse_and_keyboard_focus_both_work(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.click("[data-label='2']")
    done(ada, 1)
    ada.press(" ")  # after a click, Space skips
    done(ada, 2)
    ada.run("document.querySelector('[data-label=\"1\"]').focus()")
    ada.press(" ")  # with the focus on a button, Space presses it
    done(ada, 3)
    assert site.store.labels() == {0: 2, 2: 1}
    assert site.store.counts("run", 1).skipped == 1


def test_zoom_contrast_guess_and_help(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.press("+", ".")
    style = ada.run("return [image.style.transform, image.style.filter]")
    assert style == ["translate(0px, 0px) scale(1.5)", "contrast(1.25)"]
    ada.press("Escape")
    assert ada.run("return [image.style.transform, image.style.filter]") == [
        "translate(0px, 0px) scale(1)",
        "",
    ]
    ada.press("g")
    ada.wait("document.getElementById('guess').textContent === 'circle (75%)'")
    ada.press("?")
    assert ada.run("return document.getElementById('help').open")
    ada.press("1")  # labels nothing while help is open
    ada.press("Escape")
    assert not ada.run("return document.getElementById('help').open")
    ada.press("2")
    done(ada, 1)
    assert site.store.database.rows("SELECT sample, label, saw_guess FROM events")[0]["saw_guess"] == 1
    assert len(site.store.labels()) == 1


def test_a_guess_that_was_seen_is_recorded_whatever_comes_between(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.press("1", "g")
    ada.wait("document.getElementById('guess').textContent === 'square (75%)'")
    ada.wait(SAVED)
    ada.reload()
    assert shown(ada) == 1
    ada.press("1", "g")
    ada.wait("document.getElementById('guess').textContent === 'cross (75%)'")
    ada.press("Left", "Right", "1", "1")
    done(ada, 4)
    seen = site.store.database.rows("SELECT sample, saw_guess FROM events ORDER BY id")
    assert [tuple(row) for row in seen] == [(0, 0), (1, 1), (2, 1), (3, 0)]


def test_a_guess_that_cannot_be_had_is_told(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    assert shown(ada) == 0
    with offline(ada):
        ada.press("g")
        ada.wait("document.getElementById('status').textContent === 'No guess: the site does not answer.'")
    site.store.annotators.renew("ada")  # which ends the session
    ada.press("g")
    ada.wait("document.getElementById('token')")


def test_an_answer_that_is_never_accepted_holds_back_no_other(site, browse, monkeypatch):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    record = site.store.answers.record

    def record_most(annotator, sample, *answer, **more):
        assert sample != 0
        record(annotator, sample, *answer, **more)

    ada = browse(site, "ada")
    with monkeypatch.context() as patch:
        patch.setattr(site.store.answers, "record", record_most)
        ada.press("1", "2", "3")
        done(ada, 2)
        ada.wait(
            "document.getElementById('banner').textContent.startsWith('Not saved: Something went wrong')"
        )
    assert site.store.labels() == {1: 1, 2: 2}
    ada.reload()
    assert shown(ada) == 0  # still wanted


def at_a_disagreement(site, browse):
    """Ada, before an image of which Bob and Eve think differently."""
    site.store.rounds.open("run", 1, [3], "logo", None, overlap=2)
    for k, name in enumerate(("bob", "eve")):
        site.token(name)
        site.store.answers.record(site.store.annotators.find(name), 3, "label", k)
    ada = browse(site, "ada", reviewer=True)
    ada.click("a[href='/disagreements']")
    ada.wait("document.getElementById('opinions')?.textContent.includes('circle (1), square (1)')")
    return ada


def test_a_decision_that_comes_too_late_is_told(site, browse):
    ada = at_a_disagreement(site, browse)
    site.store.answers.record(site.store.annotators.find("eve"), 3, "label", 0)  # changed her mind
    ada.press("2")
    ada.wait(
        "document.getElementById('banner')?.textContent.includes('there is no disagreement about image 3')"
    )
    ada.wait("document.body.innerText.includes('No disagreements')")
    assert site.store.labels() == {3: 0}


def test_nothing_is_seen_after_signing_out(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.go(site.address + "/images/3")
    assert ada.run("return document.images[0].naturalWidth") == 24
    ada.go(site.address)
    ada.wait("document.getElementById('image').naturalWidth")
    ada.click(".who button")
    ada.wait("document.getElementById('token')")
    for place in ("/images/3", "/images/0"):
        ada.go(site.address + place)
        assert "Sign in first." in ada.text()
    for _ in range(4):
        ada.run("history.back()")
        ada.wait("document.readyState === 'complete'")
        assert ada.run("return [...document.images].every(image => !image.naturalWidth)")


def test_answers_survive_a_reload_and_a_site_that_is_away(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    ada.wait("document.getElementById('image').complete")
    with offline(ada):
        ada.press("1", "2", "3")
        ada.wait("document.getElementById('banner').textContent.includes('3 not saved yet; trying again')")
        assert site.store.labels() == {}
    ada.wait(SAVED)
    assert site.store.labels() == {0: 0, 1: 1, 2: 2}
    ada.wait("document.getElementById('banner').hidden")


def test_the_waiting_page_tells_that_the_site_is_away_and_no_longer(site, browse):
    ada = browse(site, "ada")
    with offline(ada):
        ada.wait("document.getElementById('status').textContent.startsWith('The site does not answer')")
    ada.wait("document.getElementById('status').textContent === ''")


def test_an_answer_survives_the_end_of_the_session(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    assert shown(ada) == 0
    token = site.store.annotators.renew("ada")
    ada.press("3")
    ada.wait("document.getElementById('token')")
    ada.type("#token", token)
    ada.click("main button")
    done(ada, 1)
    assert site.store.labels() == {0: 2}


def test_an_answer_survives_signing_in_anew_in_another_window(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada = browse(site, "ada")
    assert shown(ada) == 0
    sign_in = "{method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({token: arguments[0]})}"
    assert ada.run(f"return fetch('/api/sign-in', {sign_in}).then(answer => answer.ok)", site.token("ada"))
    ada.press("3")
    done(ada, 1)
    assert site.store.labels() == {0: 2}


def test_undo_when_there_is_nothing_left_to_label(site, browse):
    site.store.rounds.open("run", 1, [4], "logo", None)
    ada = browse(site, "ada")
    ada.press("1")
    ada.wait("document.body.innerText.includes('Round 1 is done')")
    ada.press("Backspace")
    ada.wait("document.getElementById('work')")
    assert (shown(ada), site.store.labels()) == (4, {})


@pytest.mark.parametrize("closed", [False, True])
def test_undo_leads_to_the_image_from_whatever_page(site, browse, closed):
    site.store.rounds.open("run", 1, [4], "logo", None)
    ada = browse(site, "ada", reviewer=True)
    ada.press("2")
    ada.wait("document.body.innerText.includes('Round 1 is done')")
    if closed:
        site.store.rounds.close("run", 1)
    for path in ("/late", "/disagreements", "/"):
        ada.go(site.address + path)
        ada.press("Backspace")
        ada.wait("document.getElementById('work')")
        assert (shown(ada), site.store.labels()) == (4, {})
        assert ada.run("return location.pathname") == ("/late" if closed else "/")
        ada.press("2")
        ada.wait("document.getElementById('wait')")


def test_answers_come_from_label_studio(site, browse, tmp_path):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    choice = {"type": "choices", "value": {"choices": ["cross"]}}
    tasks = [
        {"data": {"image": f"train_images[{k}]"}, "annotations": [{"result": [choice]}]} for k in (2, 99)
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    ada = browse(site, "ada", lead=True)
    ada.go(site.address + "/overview")
    ada.type("#import", str(tmp_path / "export.json"))
    ada.wait(
        "document.getElementById('imported').textContent === '1 answers recorded, 0 were known before, 1 left out.'"
    )
    assert site.store.labels() == {2: 2}
    assert "there is no image 'train_images[99]' here" in ada.text()
    ada.reload()
    ada.run("window.confirm = () => true")
    ada.click("[data-undo]")
    ada.wait("document.getElementById('imported').textContent === '1 answers taken back.'")
    assert site.store.labels() == {}


def test_a_round_that_closes_while_somebody_labels(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", datetime.now(UTC) - timedelta(hours=1))
    ada = browse(site, "ada")
    assert shown(ada) == 0
    assert "deadline passed, still open" in ada.text()
    site.store.rounds.close("run", 1)
    ada.press("1")
    ada.wait("document.body.innerText.includes('Round 1 is closed')")
    assert site.store.labels() == {0: 0}  # late, but not lost
    assert site.store.labels_at_close("run", 1) == {}
    ada.click("a[href='/late']")
    assert shown(ada) == 1
    assert "deadline" not in ada.text()


def test_the_heading_names_the_round_of_the_image_on_the_screen(site, browse):
    site.store.rounds.open("long", 3, [1, 2], "logo", None)
    site.store.rounds.set_planned("long", 5)
    site.store.rounds.open("short", 1, [10], "logo", None)
    ada = browse(site, "ada")
    headings = "[document.title, document.querySelector('h1').textContent, heading.textContent]"
    for number, sample in (("1", 10), ("3 of 5", 1)):
        ada.wait(f"document.getElementById('heading').textContent === 'Round {number}'")
        assert shown(ada) == sample
        wanted = [f"Round {number}{rest}" for rest in (" · St. Elsewhere", ": label images", "")]
        assert ada.run(f"return {headings}") == wanted
        ada.press("1")


def test_the_waiting_page_changes_when_a_decision_is_needed_and_not_before(site, browse):
    site.store.rounds.open("run", 1, [3, 4], "logo", None, overlap=2)
    bob, eve = (site.token(name) and site.store.annotators.find(name) for name in ("bob", "eve"))
    for one in (bob, eve):
        site.store.answers.record(one, 3, "label", 2)
    site.store.answers.record(bob, 4, "label", 0)
    site.store.queues.next(eve, "round", 1)  # she has it on the screen
    ada = browse(site, "ada", reviewer=True)
    sooner = "const wait = setTimeout; window.setTimeout = (what, ms) => wait(what, ms / 30)"
    added = ada.chromium("Page.addScriptToEvaluateOnNewDocument", {"source": sooner})
    ada.wait("document.body.innerText.includes('Your part is done')")
    ada.run("window.asked = 0; const {fetch} = window; window.fetch = (...what) => (asked++, fetch(...what))")
    ada.wait("window.asked > 2")  # it looks, and stays as it is: a page that loads anew loses the focus
    site.store.answers.record(eve, 4, "label", 1)
    ada.wait("document.body.innerText.includes('Decide 1 disagreement')", seconds=5)
    ada.chromium("Page.removeScriptToEvaluateOnNewDocument", added)


def test_who_decides_again_sees_again_what_was_said(site, browse):
    ada = at_a_disagreement(site, browse)
    site.store.rounds.open("run", 2, [4], "logo", None, overlap=2)
    for k, name in enumerate(("bob", "eve")):
        site.store.answers.record(site.store.annotators.find(name), 4, "label", k + 2)
    said = "document.getElementById('opinions')?.textContent.includes('{}')"
    ada.press("1")
    ada.wait(said.format("cross (1), none of these (1)"))
    ada.press("Backspace")
    ada.wait(said.format("circle (1), square (1)"))
    ada.press("1")
    ada.wait(SAVED)
    ada.reload()
    ada.wait(said.format("cross (1), none of these (1)"))
    ada.wait(
        "(document.querySelector('[data-do=back]').click(), document.body.innerText.includes('you said'))"
    )
    assert ada.run("return " + said.format("circle (1), square (1)"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_what_one_sees_through_a_picture_is_black_as_in_training(site, browse, tmp_path, dark):
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("RGBA", (40, 10), (255, 255, 255, 0)).save(folder / "wide.png")
    Image.new("RGBA", (10, 40), (255, 255, 255, 0)).save(folder / "tall.png")
    site.show(read_images(folder, (1, 8, 8)))
    site.store.rounds.open("run", 1, range(2), "logo", None)
    ada = browse(site, "ada", dark=dark)
    for sample in range(2):
        assert shown(ada) == sample
        ada.wait("document.getElementById('image').complete")
        box = ada.run("return document.querySelector('.picture').getBoundingClientRect().toJSON()")
        ada.screenshot(tmp_path / "page.png")
        with Image.open(tmp_path / "page.png") as page:
            colours = page.convert("RGB")
        middle = int(box["x"] + box["width"] / 2), int(box["y"] + box["height"] / 2)
        assert colours.getpixel(middle) == (0, 0, 0)
        assert colours.getpixel((int(box["x"]) + 9, int(box["y"]) + 9)) != (0, 0, 0)  # beside the picture
        ada.press("1")


def test_disagreements_are_decided(site, browse):
    ada = at_a_disagreement(site, browse)
    progress = ada.run("return document.querySelector('.progress').innerText").split("\n")
    assert progress[:2] == ["Disagreements", "1 to decide"]  # and not what is left of the round
    ada.press("2")
    ada.wait("document.body.innerText.includes('No disagreements')")
    assert site.store.labels() == {3: 1}


@pytest.mark.parametrize("classes", [("שפיר (?)", "ממאיר")])
def test_names_that_run_from_right_to_left_stay_where_they_belong(site, browse, classes):
    site.store.rounds.open("run", 1, [3], "logo", None, overlap=2)
    for k, name in enumerate(("bob", "eve")):
        site.token(name)
        site.store.answers.record(site.store.annotators.find(name), 3, "label", k)
    ada = browse(site, "ada", reviewer=True)
    ada.go(f"{site.address}/disagreements")
    ada.wait("document.querySelector('#opinions bdi')")
    lefts = ada.run("""return [...document.getElementById('opinions').childNodes].slice(1, 4).map(node => {
        const range = document.createRange();
        range.selectNode(node);
        return range.getBoundingClientRect().left;
    })""")
    assert lefts == sorted(lefts)  # a name, how many said so, the other name
    assert ada.run("return getComputedStyle(document.querySelector('[data-label] span')).direction") == "rtl"


@pytest.mark.parametrize("classes", [[f"{k}, that is a name of several lines " * 3 for k in range(40)]])
def test_long_names_of_many_classes_do_not_cover_each_other(site, browse, classes):
    site.store.rounds.open("run", 1, [0], "logo", None)
    ada = browse(site, "ada")
    covered = """return [...document.querySelectorAll('.classes button')].filter(button => {
        const outer = button.getBoundingClientRect(), inner = button.querySelector(':not(kbd)').getBoundingClientRect();
        return inner.top < outer.top || inner.bottom > outer.bottom;
    }).length"""
    assert ada.run(covered) == 0


@pytest.mark.parametrize("classes", [("benign", "malignant"), CHEST], ids=["few", "many"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1280, 800)])
def test_pages_fit_the_screen(site, browse, width, height, classes):
    site.store.rounds.open("run", 1, range(9), "logo", datetime.now(UTC) + timedelta(days=3))
    ada = browse(site, "ada", width=width, height=height, dark=width == 820)
    for path in ("/", "/overview", "/late", "/disagreements"):
        ada.go(site.address + path)
        size = ada.run("return [innerWidth, document.documentElement.scrollWidth]")
        assert size == [width, width]
        unnamed = "return [...document.querySelectorAll('button, a, input:not([type=hidden])')].filter(e => !(e.innerText || e.ariaLabel || e.labels?.length || e.value)).length"
        assert ada.run(unnamed) == 0
    ada.go(site.address)
    ada.wait("document.getElementById('image').naturalWidth")
    box = ada.run(
        "const b = document.querySelector('.picture').getBoundingClientRect(); return [b.width, b.height]"
    )
    assert min(box) > 0.3 * min(width, height)
    cut_off = """return [...document.querySelectorAll('.classes, .classes button')].filter(e => {
        const {left, right} = e.getBoundingClientRect();
        return left < 0 || right > innerWidth || e.scrollWidth > e.clientWidth;
    }).map(e => e.innerText)"""
    assert ada.run(cut_off) == []
    ada.run("[...document.querySelectorAll('[data-label]')].at(-1).click()")  # of the longest name
    ada.press("Left")
    ada.wait("document.getElementById('which').textContent.startsWith('Earlier image')")
    tools = (
        "[...document.querySelectorAll('.tools button, #which')].map(e => e.getBoundingClientRect().right)"
    )
    assert max(ada.run(f"return {tools}")) < ada.run("return stage.getBoundingClientRect().right")
    last = "return document.querySelector('[data-do=undo]').getBoundingClientRect().bottom <= innerHeight"
    assert ada.run(last)  # everything that answers is on the screen without scrolling
    background = ada.run("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 24, 27)" if width == 820 else "rgb(255, 255, 255)")
