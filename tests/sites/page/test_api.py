"""Labelling over HTTP, the way programs and the page's script do."""

import csv
import resource
import sqlite3
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from fedactive.errors import ConfigurationError, UserError
from fedactive.sites.labels.rounds import Counts
from fedactive.sites.page.app import create_app
from fedactive.sites.page.server import PageServer
from fedactive.sites.page.view import classes_with_keys
from fedactive.sites.site.image_pool import Report
from support.documents import python_block
from support.small_images import make_folder

BYTES_PER_PAGE = 4096 + 24  # in SQLite's write-ahead log


def label_all(client, label=1):
    done = 0
    while images := client.get("/api/next").raise_for_status().json()["images"]:
        for image in images:
            client.post("/api/answer", json={"sample": image["sample"], "label": label}).raise_for_status()
            done += 1
    return done


def test_a_program_labels_a_round(site, signed_in):
    deadline = datetime.now(UTC) + timedelta(hours=1)
    site.store.rounds.open("run", 1, range(20), "logo", deadline)
    client = signed_in("robot")
    first = client.get("/api/next?count=3").json()
    assert [image["sample"] for image in first["images"]] == [0, 1, 2]
    assert first["state"] == "label"
    assert first["round"]["number"] == 1
    assert first["round"]["deadline"] == deadline.isoformat(timespec="seconds")
    picture = client.get(first["images"][2]["image"])
    assert (picture.content, picture.headers["content-type"]) == site.images.picture(2)
    assert label_all(client, 2) == 20
    assert site.store.labels() == dict.fromkeys(range(20), 2)
    assert client.get("/api/next").json()["state"] == "done"


def test_the_program_of_the_document_labels_a_round(site):
    site.store.rounds.open("run", 1, range(5), "logo", None)
    program = python_block("LABELLING.md", "import httpx").replace("http://127.0.0.1:8000", site.address)
    names = {}
    exec(program.replace('"..."', f'"{site.token("robot")}"'), names)
    names["site"].close()
    assert site.store.labels() == dict.fromkeys(range(5), 3)


def test_the_answer_to_an_answer_is_what_comes_next(site, signed_in):
    site.store.rounds.open("run", 1, range(3), "logo", None)
    client = signed_in("ada")
    result = client.post("/api/answer", json={"sample": 0, "action": "skip", "seconds": 2.5}).json()
    assert [image["sample"] for image in result["images"]] == [1, 2]
    assert result["counts"] == {"requested": 3, "labelled": 0, "skipped": 1, "flagged": 0, "pending": 2}
    assert result["pace"] == 2.5


def test_states(site, signed_in):
    ada, bob = signed_in("ada"), signed_in("bob")

    def state(client, queue="round"):
        return client.get(f"/api/next?queue={queue}").json()["state"]

    assert state(ada) == "waiting"
    assert "Waiting for the first round" in ada.get("/").text
    site.store.rounds.open("run", 1, range(3), "logo", None)
    assert state(ada) == "label"
    assert state(bob) == "others"
    assert "Your part is done" in bob.get("/").text
    ada.post("/api/answer", json={"sample": 0, "label": 0})
    site.store.rounds.close("run", 1)
    assert state(ada) == "closed"
    page = ada.get("/").text
    assert "Round 1 is closed" in page
    assert "Label 2 left over from earlier rounds" in page
    assert state(ada, "late") == "label"
    late = ada.post("/api/answer", json={"sample": 1, "label": 3, "queue": "late"}).json()
    assert [image["sample"] for image in late["images"]] == [2]
    assert site.store.labels() == {0: 0, 1: 3}
    ada.post("/api/answer", json={"sample": 2, "action": "flag", "queue": "late"})
    assert "Nothing is left over" in ada.get("/late").text
    site.store.rounds.open("run", 2, [9], "logo", None)
    assert state(ada) == "label"
    ada.post("/api/answer", json={"sample": 9, "label": 0})
    assert "Round 2 is done" in ada.get("/").text


def test_the_last_round_is_told(site, signed_in):
    ada = signed_in("ada")
    site.store.rounds.open("run", 1, [0], "logo", None)
    site.store.rounds.set_planned("run", 2)
    assert "Round 1 of 2: label images" in ada.get("/").text
    assert "Round 1 of 2</h2>" in ada.get("/overview").text
    ada.post("/api/answer", json={"sample": 0, "label": 0})
    assert "The next round opens" in ada.get("/").text
    site.store.rounds.close("run", 1)
    assert "count from the next round" in ada.get("/").text
    site.store.rounds.open("run", 2, [1], "logo", None)
    site.store.rounds.set_planned("run", 2)
    ada.post("/api/answer", json={"sample": 1, "label": 0})
    assert "This is the last round" in ada.get("/").text
    site.store.rounds.close("run", 2)
    assert "this run needs no more labels" in ada.get("/").text
    site.store.rounds.set_planned("run", 3)
    assert "count from the next round" in ada.get("/").text
    site.store.rounds.close_run("run")  # it was abandoned
    assert "this run needs no more labels" in ada.get("/").text


def test_of_several_runs_people_wait_for_the_one_that_they_labelled_last(site, signed_in):
    ada = signed_in("ada")
    site.store.rounds.open("long", 1, [0], "logo", None)
    site.store.rounds.set_planned("long", 5)
    site.store.rounds.open("short", 1, [1], "logo", None)
    site.store.rounds.set_planned("short", 1)
    ada.post("/api/answer", json={"sample": 1, "label": 0})
    site.store.rounds.close("short", 1)
    ada.post("/api/answer", json={"sample": 0, "label": 0})
    site.store.rounds.close("long", 1)
    assert "Round 1 of 5 is closed" in ada.get("/").text
    assert "Round 1 of 5 (closed)" in ada.get("/overview").text


def test_what_is_left_over_for_others_is_told(site, signed_in):
    site.store.rounds.open("run", 1, range(2), "logo", None)
    site.store.rounds.close("run", 1)
    ada, bob = signed_in("ada"), signed_in("bob")
    ada.get("/late")  # she has both now
    page = bob.get("/late").text
    assert "Nothing is left over for you" in page
    assert "2 images of earlier rounds are still with other people" in page
    ada.post("/api/answer", json={"sample": 0, "label": 0, "queue": "late"})
    assert "1 image of earlier rounds is still with other people" in bob.get("/late").text
    ada.post("/api/answer", json={"sample": 1, "label": 0, "queue": "late"})
    page = bob.get("/late").text
    assert "<h1>Nothing is left over</h1>" in page
    assert "Every image of the earlier rounds has its answers" in page


def test_undo_and_history(site, signed_in):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    client = signed_in("ada")
    for sample in range(3):
        client.post("/api/answer", json={"sample": sample, "label": sample})
    answers = client.get("/api/history").json()
    assert [(one["sample"], one["action"], one["label"]) for one in answers] == [
        (2, "label", 2),
        (1, "label", 1),
        (0, "label", 0),
    ]
    undone = client.post("/api/undo", json={"key": "u1"}).json()
    again = client.post("/api/undo", json={"key": "u1"}).json()
    assert undone["undone"]["sample"] == again["undone"]["sample"] == 2
    assert undone["images"][0]["sample"] == 2
    assert len(client.get("/api/history").json()) == 2
    for _ in range(2):
        client.post("/api/undo", json={})
    assert client.post("/api/undo", json={}).json()["undone"] is None
    assert site.store.labels() == {}


def test_a_key_belongs_to_one_request(site, signed_in):
    site.store.rounds.open("run", 1, range(4), "logo", None)
    client = signed_in("ada")
    client.post("/api/answer", json={"sample": 0, "label": 1, "key": "a"}).raise_for_status()
    refused = [
        client.post("/api/undo", json={"key": "a"}),
        client.post("/api/answer", json={"sample": 1, "label": 1, "key": "a"}),
        client.post("/api/answer", json={"sample": 0, "label": 2, "key": "a"}),
    ]
    client.post("/api/undo", json={"key": "b"}).raise_for_status()
    refused.append(client.post("/api/answer", json={"sample": 0, "label": 1, "key": "b"}))
    for answer in refused:
        assert (answer.status_code, answer.json()) == (
            422,
            {"error": "this key was used for another request before"},
        )
    assert site.store.labels() == {}


def test_a_mistake_of_ours_is_told_like_any_other_error(site, signed_in, monkeypatch):
    site.store.rounds.open("run", 1, [0], "logo", None)
    client = signed_in("ada")
    monkeypatch.setattr(site.store.answers, "record", lambda *_, **__: 1 / 0)
    answer = client.post("/api/answer", json={"sample": 0, "label": 1})
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "Something went wrong at the site. Its log says what."},
    )


def test_keys_of_different_people_do_not_meet(site, signed_in):
    site.store.rounds.open("run", 1, range(4), "logo", None)
    clients = signed_in("ada"), signed_in("bob")
    for k, client in enumerate(clients):
        assert client.get("/api/next?count=1").json()["images"][0]["sample"] == k
    for k, client in enumerate(clients):
        client.post("/api/answer", json={"sample": k, "label": 1, "key": "same"}).raise_for_status()
    assert site.store.labels() == {0: 1, 1: 1}


def test_disagreements(site, signed_in):
    site.store.rounds.open("run", 1, [5, 6], "logo", None, overlap=2)
    ada, bob, rita = signed_in("ada"), signed_in("bob"), signed_in("rita", reviewer=True)
    for client, labels in ((ada, (0, 2)), (bob, (1, 2))):
        for sample, label in zip((5, 6), labels, strict=True):
            client.post("/api/answer", json={"sample": sample, "label": label})
    assert "1 disagreement waits for a reviewer" in ada.get("/overview").text
    assert "Only a reviewer of this site decides" in ada.get("/disagreements").text
    assert ada.get("/api/next?queue=disputed").status_code == 403
    page = rita.get("/overview").text
    assert "Decide 1 disagreement<" in page
    assert "ada and bob" in page
    assert "50%" in page
    (image,) = rita.get("/api/next?queue=disputed").json()["images"]
    assert image["sample"] == 5
    assert image["opinions"] == [
        {"action": "label", "label": 0, "people": 1},
        {"action": "label", "label": 1, "people": 1},
    ]
    decision = {"sample": 5, "label": 1, "queue": "disputed"}
    assert ada.post("/api/answer", json=decision).status_code == 422
    assert site.store.labels() == {6: 2}
    rita.post("/api/answer", json=decision).raise_for_status()
    assert site.store.labels() == {5: 1, 6: 2}
    assert site.store.counts("run", 1) == Counts(2, 2, 0, 0, 0)
    assert "No disagreements" in rita.get("/disagreements").text


def test_a_reviewer_waits_for_another_where_they_took_part(site, signed_in):
    site.store.rounds.open("run", 1, [5], "logo", None, overlap=2)
    ada, rita = signed_in("ada"), signed_in("rita", reviewer=True)
    for k, client in enumerate((ada, rita)):
        client.post("/api/answer", json={"sample": 5, "label": k}).raise_for_status()
    assert "1 waits for another reviewer, because you answered" in rita.get("/disagreements").text
    assert "1 disagreement waits for a reviewer who did not answer about it." in rita.get("/overview").text
    assert "Nobody here is one yet" not in rita.get("/overview").text
    refused = rita.post("/api/answer", json={"sample": 5, "label": 1, "queue": "disputed"})
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        "you answered about image 5 yourself: another reviewer decides",
    )


def test_an_answer_about_somebody_elses_image_is_refused(site, signed_in):
    site.store.rounds.open("run", 1, range(9), "logo", None)
    ada, bob = signed_in("ada"), signed_in("bob")
    ada.get("/api/next?count=3")
    ada.post("/api/answer", json={"sample": 0, "label": 1}).raise_for_status()
    for sample in (0, 1):
        refused = bob.post("/api/answer", json={"sample": sample, "label": 2})
        assert (refused.status_code, refused.json()) == (
            409,
            {"error": f"image {sample} is not in your queue"},
        )
    assert site.store.labels() == {0: 1}


def test_nobody_decides_alone_what_nobody_disputes(site, signed_in):
    site.store.rounds.open("run", 1, [0], "logo", None, overlap=3)
    people = [signed_in(name) for name in ("ada", "bob", "eve")]
    rita = signed_in("rita", reviewer=True)
    decision = {"sample": 0, "label": 1, "queue": "disputed"}
    for k, client in enumerate(people):
        refused = rita.post("/api/answer", json=decision)
        assert (refused.status_code, refused.json()["error"]) == (
            422,
            "there is no disagreement about image 0 to decide",
        )
        client.post("/api/answer", json={"sample": 0, "label": k}).raise_for_status()
    assert site.store.labels() == {}
    for label in (1, 2):  # a decision can be changed
        rita.post("/api/answer", json=decision | {"label": label}).raise_for_status()
        assert site.store.labels() == {0: label}


def test_where_several_people_answer_everybody_sees_their_own_share(site, signed_in):
    site.store.rounds.open("run", 1, range(4), "logo", None, overlap=2)
    ada, bob, eve = signed_in("ada"), signed_in("bob"), signed_in("eve")
    assert ada.get("/api/next").json()["mine"] == {"answered": 0, "left": 4}
    for sample in (0, 1, 2):
        result = ada.post("/api/answer", json={"sample": sample, "label": 0}).json()
    assert result["mine"] == {"answered": 3, "left": 1}
    assert result["counts"]["pending"] == 4  # nobody else has answered
    label_all(bob)
    assert bob.get("/api/next").json()["mine"] == {"answered": 4, "left": 0}
    assert eve.get("/api/next").json()["mine"] == {"answered": 0, "left": 1}  # the others have their two


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (("cat", "dog", "horse"), "123"),
        (("0", "1", "2"), "012"),
        (("Grade 1", "Grade 2", "not gradable", "Grade 0"), "1230"),
        (("B", "A", "neither"), "ba1"),
        (("F", "G", "H"), "12h"),  # F and G mean something else
        (("stage 1", "phase 1", "phase 12"), "123"),  # 1 could be either
    ],
)
def test_a_class_that_is_named_after_a_key_has_this_key(classes, keys):
    assert classes_with_keys(classes) == list(zip(keys, classes, strict=True))


def test_more_classes_than_keys():
    keys = [key for key, _ in classes_with_keys([f"class of things {k:03}" for k in range(40)])]
    assert keys[-6:] == [""] * 6
    assert len({*keys}) == 35


def test_the_guess_is_given_on_request_and_recorded(site, signed_in):
    site.store.rounds.open("run", 1, [6], "logo", None, overlap=2)
    client, bob = signed_in("ada"), signed_in("bob")
    assert "guess" not in client.get("/api/next").text
    client.post("/api/answer", json={"sample": 6, "label": 1})
    assert client.get("/api/guess/6").json() == {"label": 2, "probability": 0.75}
    client.post("/api/answer", json={"sample": 6, "label": 2})
    bob.post("/api/answer", json={"sample": 6, "label": 2})
    seen = site.store.database.rows("SELECT saw_guess FROM events ORDER BY id")
    assert [tuple(row) for row in seen] == [(0,), (1,), (0,)]


def test_a_guess_that_is_not_there_was_not_seen(site, signed_in):
    site.store.rounds.open("run", 1, [55], "logo", None)
    client = signed_in("ada")
    assert client.get("/api/guess/55").json() == {"label": None, "probability": None}
    client.post("/api/answer", json={"sample": 55, "label": 2})
    assert site.store.database.one("SELECT saw_guess FROM events")[0] == 0


def test_label_studio_over_http(site, signed_in):
    site.store.rounds.open("run", 1, range(2), "logo", None)
    client = signed_in("ada", lead=True)
    client.post("/api/answer", json={"sample": 1, "label": 3})
    tasks = client.get("/label-studio.json?prefix=/data/local-files/?d=")
    assert "attachment" in tasks.headers["content-disposition"]
    assert [task["data"]["image"] for task in tasks.json()] == [
        "/data/local-files/?d=train_images[0]",
        "/data/local-files/?d=train_images[1]",
    ]
    answer = client.post("/api/label-studio", content=tasks.content)
    assert answer.json() == {"recorded": 0, "known_before": 1, "left_out": []}
    refused = client.post("/api/label-studio", content=b"holiday")
    assert (refused.status_code, refused.json()["error"][:31]) == (400, "this is not a list of tasks in ")


def test_an_import_is_undone_over_http(site, signed_in):
    site.store.rounds.open("run", 1, range(2), "logo", None)
    lead, ada = signed_in("lee", lead=True), signed_in("ada")
    choice = {"type": "choices", "value": {"choices": ["circle"]}}
    task = {"data": {"image": "train_images[1]"}, "annotations": [{"result": [choice]}]}
    assert lead.post("/api/label-studio", json=[task]).json()["recorded"] == 1
    assert site.store.labels() == {1: 0}
    assert 'data-undo="1"' in lead.get("/overview").text
    assert "data-undo" not in ada.get("/overview").text
    assert ada.post("/api/label-studio/undo", json={"number": 1}).status_code == 403
    assert lead.post("/api/label-studio/undo", json={"number": 1}).json() == {"undone": 1}
    assert lead.post("/api/label-studio/undo", json={"number": 2}).status_code == 422
    assert site.store.labels() == {}
    assert "undone" in lead.get("/overview").text


def test_one_import_at_a_time(site, signed_in):
    lead = signed_in("lee", lead=True)
    with site.server.server.config.app.state.desk.importing:
        refused = lead.post("/api/label-studio", json=[])
    assert (refused.status_code, refused.json()["error"][:22]) == (409, "Another import is goin")
    assert lead.post("/api/label-studio", json=[]).status_code == 200


def test_the_access_log_says_who_saw_and_did_what(site, signed_in):
    site.store.rounds.open("run", 1, range(2), "logo", None)
    httpx.post(site.address + "/api/sign-in", json={"token": "guessed"})
    lead, ada = signed_in("lee", lead=True), signed_in("ada")
    ada.get("/images/0").raise_for_status()
    assert ada.get("/images/9").status_code == 404  # nobody asked for it: she sees nothing
    ada.get("/api/guess/0").raise_for_status()
    ada.post("/api/answer", json={"sample": 0, "label": 1}).raise_for_status()
    ada.post("/api/answer", json={"sample": 1, "action": "flag"}).raise_for_status()
    ada.post("/api/undo", json={}).raise_for_status()
    ada.post("/sign-out", data={"csrf": ada.headers["X-CSRF-Token"]})
    assert "Access log" not in signed_in("bob").get("/overview").text
    assert "Access log" in lead.get("/overview").text
    answer = lead.get("/access-log.csv").raise_for_status()
    assert "attachment" in answer.headers["content-disposition"]
    times, *rows = zip(*csv.reader(answer.text.splitlines()), strict=True)
    assert times[0] == "time"
    assert all(datetime.fromisoformat(one).utcoffset() == timedelta(0) for one in times[1:])
    here, image = "127.0.0.1", "train_images[{}]".format
    assert list(zip(*rows, strict=True)) == [
        ("person", "address", "deed", "image", "answer", "about"),
        ("", here, "failed to sign in", "", "", ""),
        ("lee", here, "signed in", "", "", ""),
        ("ada", here, "signed in", "", "", ""),
        ("ada", here, "saw image", image(0), "", ""),
        ("ada", here, "saw guess", image(0), "", ""),
        ("ada", "", "answered", image(0), "square", ""),
        ("ada", "", "answered", image(1), "flag", ""),
        ("ada", "", "undid answer", image(1), "", ""),
        ("ada", here, "signed out", "", "", ""),
        ("bob", here, "signed in", "", "", ""),
        ("lee", here, "exported log", "", "", ""),
    ]
    assert signed_in("bob").get("/access-log.csv").status_code == 403
    for statement in ("UPDATE access SET deed = ''", "DELETE FROM access"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            site.store.database.connection.execute(statement)


def test_names_of_files_that_are_no_text_are_told_and_exported(site, signed_in, tmp_path):
    pool = make_folder(tmp_path / "copied", "caf\udce9.png", "plain.png")
    site.show(replace(pool, report=Report(duplicates=(("plain2.png", "caf\udce9.png"),))))
    site.store.rounds.open("run", 1, range(2), "logo", None)
    client = signed_in("ada", lead=True)
    client.post("/api/answer", json={"sample": 0, "label": 3})
    assert "the same picture as caf\\udce9.png" in client.get("/overview").raise_for_status().text
    tasks = client.get("/label-studio.json").raise_for_status()
    assert client.post("/api/label-studio", content=tasks.content).json()["known_before"] == 1


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"sample": 0, "label": 4}, 422, "There is no class 4: there are 4."),
        ({"sample": 0, "label": -1}, 422, "There is no class -1: there are 4."),
        ({"sample": 0}, 422, "A label needs its class, and only a label has one."),
        (
            {"sample": 0, "action": "skip", "label": 1},
            422,
            "A label needs its class, and only a label has one.",
        ),
        ({"sample": 0, "action": "undo"}, 422, "action: Input should be 'label', 'skip' or 'flag'"),
        ({"sample": 7, "label": 1}, 404, "nobody asked for image 7"),
        ({"sample": 10**30, "label": 1}, 422, "sample: Input should be "),
        ({"sample": "../../etc/passwd", "label": 1}, 422, "sample: Input should be a valid integer"),
        (
            {"sample": 0, "label": 1, "seconds": -1},
            422,
            "seconds: Input should be greater than or equal to 0",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(site, signed_in, given, status, message):
    site.store.rounds.open("run", 1, [0], "logo", None)
    answer = signed_in("ada").post("/api/answer", json=given)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)
    assert site.store.labels() == {}


def test_a_full_disk_is_told_and_the_page_goes_on(site, signed_in):
    site.store.rounds.open("run", 1, range(50), "logo", None)
    client = signed_in("ada")
    database = site.store.database
    database.connection.execute(f"PRAGMA max_page_count = {database.one('PRAGMA page_count')[0]}")
    # Fill what is left of the last pages; then nothing more fits.
    answers = [client.post("/api/answer", json={"sample": k % 50, "label": 1}) for k in range(400)]
    full = [answer for answer in answers if answer.status_code == 503]
    assert full
    assert "database or disk is full" in full[0].json()["error"]
    database.connection.execute("PRAGMA max_page_count = 100000")
    assert client.post("/api/answer", json={"sample": 3, "label": 2}).status_code == 200
    assert site.store.labels()[3] == 2


@contextmanager
def room_for(pages, log):
    """No file of this process may grow further, as on a disk that has so much left."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + pages * BYTES_PER_PAGE, -1))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))


@pytest.mark.parametrize("call", ["answer", "undo"])
def test_a_request_fails_when_nothing_was_saved_and_only_then(site, signed_in, tmp_path, call):
    site.store.rounds.open("run", 1, range(60), "logo", None)
    client = signed_in("ada")
    for sample in range(40, 60):
        client.post("/api/answer", json={"sample": sample, "label": 1}).raise_for_status()
    statuses = []
    for pages in range(1, 16):  # at first there is no room for the answer, then not for holding what is next
        # Nothing is held when it begins.
        site.store.database.connection.execute("DELETE FROM assignments WHERE action IS NULL")
        saved = len(site.store.answers.events("1"))
        with room_for(pages, tmp_path / "labels.sqlite-wal"):
            given = {"sample": pages, "label": 1} if call == "answer" else {}
            statuses.append(client.post(f"/api/{call}", json=given).status_code)
        assert len(site.store.answers.events("1")) - saved == (statuses[-1] == 200), pages
    assert set(statuses) == {200, 503}


def test_a_picture_that_is_gone_is_no_crash_and_keeps_its_name(site, signed_in, tmp_path, caplog):
    site.show(make_folder(tmp_path / "wards", "malignant/doe.png", "benign/roe.png"))
    site.store.rounds.open("run", 1, [1, 99], "logo", None)  # more than there are images
    (tmp_path / "wards" / "malignant" / "doe.png").unlink()
    client = signed_in("ada")
    for sample in (1, 99):
        answer = client.get(f"/images/{sample}")
        told = {"error": f"Image {sample} cannot be shown. The site's log says why."}
        assert (answer.status_code, answer.json()) == (404, told)
    assert [record.getMessage() for record in caplog.records if "cannot be shown" in record.msg] == [
        "image 1 cannot be shown: cannot read malignant/doe.png: No such file or directory",
        "image 99 cannot be shown: there is no image 99: the pool has 2",
    ]


def test_the_page_is_served_elsewhere_only_with_a_certificate(site, tmp_path):
    app = create_app(site.store, site.images, ["a"], secret=b"x", title="x")
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        with pytest.raises(ConfigurationError, match="unless there is a certificate"):
            PageServer(app, host, 0)
    port = int(site.address.rpartition(":")[2])
    with pytest.raises(UserError, match=f"cannot serve on 127.0.0.1 port {port}: Address already in use"):
        PageServer(app, "127.0.0.1", port)
    (tmp_path / "no.pem").write_text("no certificate")
    with pytest.raises(UserError, match="cannot use the certificate"):
        PageServer(app, "127.0.0.1", 0, (tmp_path / "no.pem", tmp_path / "no.pem"))
