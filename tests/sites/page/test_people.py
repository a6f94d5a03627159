"""Roles on the page: a lead adds people, changes what they may do, and sees how well they label."""

import httpx
import pytest

from support.browser import missing
from support.labelling import done

PATHS = ("/api/people", "/api/people/role", "/api/people/renew", "/api/people/remove")


def test_a_lead_manages_people(site, signed_in):
    lead = signed_in("lee", lead=True)
    added = lead.post("/api/people", json={"name": "ada", "part": "reviewer"}).json()
    with httpx.Client(base_url=site.address) as ada:
        assert ada.post("/api/sign-in", json={"token": added["token"]}).status_code == 200
        assert ada.get("/disagreements").status_code == 200
        lead.post("/api/people/role", json={"name": "ada", "part": "annotator"}).raise_for_status()
        assert ada.get("/disagreements").status_code == 403  # from now on
        renewed = lead.post("/api/people/renew", json={"name": "ada"}).json()
        assert ada.get("/api/next").status_code == 401
        assert ada.post("/api/sign-in", json={"token": renewed["token"]}).status_code == 200
        lead.post("/api/people/remove", json={"name": "ada"}).raise_for_status()
        assert ada.get("/api/next").status_code == 401
    rows = [line.split(",") for line in lead.get("/access-log.csv").text.splitlines()]
    assert [(row[1], row[3], row[6]) for row in rows if row[6] == "ada"] == [
        ("lee", deed, "ada") for deed in ("added person", "changed role", "renewed token", "removed person")
    ]


@pytest.mark.parametrize("roles", [{}, {"reviewer": True}])
def test_nobody_else_does(site, signed_in, roles):
    site.token("bob")
    ada = signed_in("ada", **roles)
    assert ada.get("/people").status_code == 403
    assert "/people" not in ada.get("/overview").text
    for path in PATHS:
        assert ada.post(path, json={"name": "bob", "part": "lead"}).status_code == 403
    assert site.store.annotators.find("bob").part == "annotator"


def test_what_makes_no_sense_is_refused(site, signed_in):
    lead = signed_in("lee", lead=True)
    site.store.annotators.find_or_add("elsewhere")
    for path, given in (
        ("/api/people", {"name": "lee"}),
        ("/api/people", {"name": "bob", "part": "king"}),
        ("/api/people/role", {"name": "lee", "part": "annotator"}),  # or the site might have no lead
        ("/api/people/remove", {"name": "lee"}),
        ("/api/people/role", {"name": "elsewhere", "part": "lead"}),
        ("/api/people/renew", {"name": "nobody"}),
    ):
        assert lead.post(path, json=given).status_code == 422, given
    assert site.store.annotators.find("lee").part == "lead"


def test_gold_questions_over_http(site, signed_in):
    site.store.rounds.open("run", 1, range(40), "logo", None)
    rita, ada = signed_in("rita", reviewer=True), signed_in("ada")
    rita.post("/api/answer", json={"sample": 0, "label": 1}).raise_for_status()
    assert rita.get("/api/history").json()[0]["gold"] is False
    rita.post("/api/gold", json={"sample": 0, "gold": True}).raise_for_status()
    assert rita.get("/api/history").json()[0]["gold"] is True
    assert ada.post("/api/gold", json={"sample": 0, "gold": False}).status_code == 403
    assert rita.post("/api/gold", json={"sample": 50, "gold": True}).status_code == 404
    assert rita.post("/api/gold", json={"sample": 7, "gold": True}).status_code == 422
    images = ada.get("/api/next?count=20").json()["images"]
    assert images[9]["sample"] == 0
    assert images[9].keys() == images[0].keys()  # nothing gives it away
    result = ada.post("/api/answer", json={"sample": 0, "label": 2}).raise_for_status().json()
    assert result["counts"]["labelled"] == 1
    assert "gold" not in ada.get("/api/history").text
    assert "0 of 1 right (0%)" in ada.get("/overview").text
    assert "0 of 1 (0%)" in signed_in("lee", lead=True).get("/people").text
    assert site.store.labels() == {0: 1}


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_people_and_gold_questions_on_the_page(site, browse):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    lee = browse(site, "lee", lead=True)
    lee.press("2", "Left")
    lee.click("#gold")
    lee.wait("document.getElementById('gold').getAttribute('aria-pressed') === 'true'")
    assert site.store.gold.labels() == {0: 1}
    lee.click("a[href='/people']")
    lee.type("#name", "Ada L.")
    lee.run("document.querySelector('#add-person select').value = 'reviewer'")
    lee.click("#add-person button")
    lee.wait("document.querySelector('#told code')")
    token = lee.run("return document.querySelector('#told code').textContent")
    assert site.store.annotators.find_by_token(token).part == "reviewer"
    lee.reload()
    assert token not in lee.text()
    lee.run("""const select = document.querySelector("[data-name='Ada L.'] select"); select.value = "lead";
        select.dispatchEvent(new Event("change", {bubbles: true}))""")
    lee.wait("document.getElementById('told').textContent === 'Ada L. is lead now.'")
    assert site.store.annotators.find("Ada L.").part == "lead"
    lee.run("window.confirm = () => true")
    lee.click("[data-name='Ada L.'] [data-do=remove]")
    lee.wait("!document.querySelector(\"[data-name='Ada L.']\")")
    lee.click("[data-gold='0']")
    lee.wait("!document.querySelector('[data-gold]')")
    assert site.store.gold.labels() == {}
    lee.go(site.address)
    lee.press("1")
    done(lee, 2)
    assert lee.console() == []
