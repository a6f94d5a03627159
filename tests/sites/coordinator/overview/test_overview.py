"""The coordinator's page: who gets in, what it shows of a real run, and that its number is everybody's."""

from __future__ import annotations

import json

import pytest

from fedactive.record.run_folder import read_checkpoint
from fedactive.sites.coordinator.overview import view
from fedactive.sites.coordinator.overview.token import make_token
from fedactive.sites.coordinator.status import read_status
from support import axe
from support.lacking import lacking

# ------------------------------------------------------------------------------------------ the door


@pytest.mark.parametrize("path", ["/", "/runs/any"])
def test_nothing_is_shown_before_the_sign_in(client, token, path):
    assert client.get(path).url.path == "/sign-in"
    assert client.get(path, follow_redirects=False).status_code == 303


def test_a_wrong_token_is_refused_and_guessing_is_slow(client, token):
    answers = [client.post("/sign-in", data={"token": "guess"}).status_code for _ in range(7)]
    assert answers == [403] * 5 + [429] * 2
    assert client.post("/sign-in", data={"token": token}).url.path == "/"  # the right one is always taken


def test_a_new_token_ends_all_sessions(inside, hub):
    assert inside.get("/").url.path == "/"
    make_token(hub[0].folder)
    assert inside.get("/").url.path == "/sign-in"


def test_a_cookie_cannot_be_made_up_or_prolonged(inside):
    name, value = next(iter(inside.cookies.items()))
    until, _, signature = value.partition(".")
    for forged in (f"{int(until) + 1}.{signature}", f"{until}.{'0' * 64}", "", "x"):
        inside.cookies.clear()
        answer = inside.get("/", headers={"cookie": f"{name}={forged}"})
        assert answer.url.path == "/sign-in"


def test_the_page_answers_under_its_own_names_only(inside):
    assert inside.get("/", headers={"host": "evil.example.org"}).status_code == 421
    foreign = inside.post("/sign-in", data={"token": "x"}, headers={"sec-fetch-site": "cross-site"})
    assert foreign.status_code == 403
    assert "default-src 'none'" in inside.get("/").headers["content-security-policy"]


def test_signing_out_ends_the_session(inside):
    inside.post("/sign-out")
    assert inside.get("/").url.path == "/sign-in"


def test_without_a_token_nobody_gets_in(hub, client):
    (hub[0].folder / "page.token").unlink(missing_ok=True)
    assert "makes one" in client.post("/sign-in", data={"token": ""}).text


# ------------------------------------------------------------------------------------------ what it shows


def test_one_number_everywhere(inside, hub):
    _, result = hub
    accuracy = f"{result.accuracy.iloc[-1]:.2%}"
    assert view.percent(read_status(result.folder).accuracy) == accuracy
    for path in ("/", f"/runs/{result.folder.name}"):
        assert accuracy in inside.get(path).text
    last = result.metrics.query("model == 'global'")["accuracy"].iloc[-1]
    assert f"{last:.2%}" != accuracy  # or this test would say nothing


def test_a_run_is_shown_with_its_sites_classes_and_costs(inside, hub):
    _, result = hub
    page = inside.get(f"/runs/{result.folder.name}").text
    for words in ("finished", "north", "What is taken for what", "<svg", "at δ = 1e-05, after 12 updates"):
        assert words in page
    images = [site["images"] for site in read_status(result.folder).sites.values()]
    assert sum(images) == 1438
    assert all(f"<td>{count}</td>" in page for count in images)
    assert "&lt;b&gt;west&lt;/b&gt;" in page
    assert "<b>west" not in page
    assert "south sent weights that are not finite: head.bias" in page
    assert "nan" not in page.lower().replace("finance", "")


def test_the_confusion_matrix_is_that_of_the_last_model(hub):
    _, result = hub
    sites = json.loads((result.folder / "by_site.json").read_text())["sites"]
    matrix = view.matrix(sites, 10)
    assert [sum(row) for row in matrix] == view.add_up(sites, "tested", 10)
    assert [row[k] for k, row in enumerate(matrix)] == view.add_up(sites, "right", 10)
    last = result.metrics.query("model == 'global'")["accuracy"].iloc[-1]
    assert sum(matrix[k][k] for k in range(10)) / sum(map(sum, matrix)) == pytest.approx(last)


def test_bytes_are_counted_by_site(hub):
    north = read_status(hub[1].folder).sites["north"]
    weights = read_checkpoint(hub[1].folder / "checkpoint.pt").server.weights
    model = sum(value.numel() * value.element_size() for value in weights.values())
    assert north["received"] == 2 * 6 * model  # an update in each FL round
    assert north["sent"] == (2 * 6 * 2 + 1) * model  # to train, to evaluate, and to choose in AL round 2


def test_an_unknown_run_is_not_found(inside):
    assert inside.get("/runs/none").status_code == 404
    assert inside.get("/runs/..%2f..%2fetc").status_code == 404


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_everybody_can_read_it_in_a_browser(browser, address, token, width, dark, tmp_path):
    if reason := axe.missing():
        lacking(reason)
    browser.open(address, width, 900, touch=width < 500, dark=dark)
    faults = axe.faults(browser)
    browser.type("#token", "wrong")
    browser.click("main button")
    browser.wait("document.querySelector('[role=alert], .message')")
    faults += axe.faults(browser)
    browser.type("#token", token)
    browser.click("main button")
    browser.wait("document.querySelector('table a')")
    faults += axe.faults(browser)
    browser.click("table a")
    browser.wait("document.querySelector('.confusion')")
    faults += axe.faults(browser)
    # Nothing but tables in their own scroll boxes is wider than the window.
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    browser.run("document.querySelector('h3').scrollIntoView()")
    browser.screenshot(tmp_path / "run.png")
    browser.go(address + "/runs/none")
    faults += axe.faults(browser)
    browser.forget()
    assert not faults, "\n".join(faults)
