"""Every page by WCAG 2.2 AA, with an automatic checker, light and dark, wide and narrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fedactive.sites.page.guide import AboutClass
from support import axe
from support.browser import missing
from support.lacking import lacking

CLASSES = tuple(f"class {k}" for k in range(14))
PAGES = ("/", "/overview", "/people", "/late", "/disagreements", "/nowhere")


@pytest.fixture(autouse=True)
def checker():
    if reason := missing() or axe.missing():
        lacking(reason)


@pytest.fixture
def guide(site):
    entries = tuple(
        AboutClass(f"group {k % 2}", f"what {name} is", (site.images.picture(k),))
        for k, name in enumerate(CLASSES)
    )
    site.desk(guide=entries)


@pytest.mark.parametrize("classes", [CLASSES])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_pages_can_be_used_by_everybody(site, browse, guide, width, dark):
    found = []

    def check(what):
        # A dark page differs from a light one in its colours alone.
        found.extend(f"{what}: {fault}" for fault in axe.faults(ada, colours=dark))

    ada = browse(site, "ada", width=width, height=844, lead=True, dark=dark)
    check("no round yet")
    site.store.rounds.open("run", 1, range(30), "logo", datetime.now(UTC) + timedelta(days=3), overlap=2)
    for k, name in enumerate(("bob", "eve")):  # who agree about one image and disagree about another
        site.token(name)
        for sample, label in ((20, 3), (21, k)):
            site.store.answers.record(site.store.annotators.find(name), sample, "label", label)
        site.store.answers.record(site.store.annotators.find(name), 22, "flag", comment="black")
    site.store.gold.add(site.store.annotators.find("bob"), 20)
    ada.go(site.address)
    ada.wait("!document.getElementById('stage').hasAttribute('aria-busy')")
    ada.press("1", "Shift+f")
    check("comment")
    ada.press_at_once("Enter")
    ada.press("f", "Left")
    check("earlier image")
    for dialog in ("help", "guide"):
        ada.run(f"document.getElementById('{dialog}').showModal()")
        check(dialog)
        ada.run(f"document.getElementById('{dialog}').close()")
    ada.type("#search", "cl")
    check("search")
    for path in PAGES:
        ada.go(site.address + path)
        check(path)
    site.store.rounds.close("run", 1)
    ada.go(site.address)
    ada.wait("document.getElementById('wait')")
    check("closed")
    site.store.rounds.open("run", 2, [20], "logo", None)
    ada.go(site.address)
    check("done")
    ada.forget()
    ada.go(site.address)
    check("sign in")
    ada.type("#token", "wrong")
    ada.click("main button")
    ada.wait("document.querySelector('[role=alert]')")
    check("not signed in")
    assert not found, "\n".join(found)


def test_the_checker_finds_what_is_wrong(site, browse):
    ada = browse(site, "ada")
    ada.run("document.body.append(document.createElement('button'))")
    assert [fault.partition(":")[0] for fault in axe.faults(ada)] == ["button-name"]
